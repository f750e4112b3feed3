import verifiers.v1 as vf

from sums_rows import rows
from sums_v1.tools import SumsToolset


class SumsData(vf.TaskData):
    answer: str


class SumsTaskConfig(vf.TaskConfig):
    tools: vf.ToolsetConfig = vf.ToolsetConfig()


class SumsTask(vf.Task[SumsData, vf.State, SumsTaskConfig]):
    @classmethod
    def toolsets(cls, config: SumsTaskConfig) -> list[vf.Toolset]:
        return [SumsToolset(config.tools)]

    @vf.reward(weight=1.0)
    async def says_sum(self, trace: vf.Trace) -> float:
        return float(self.data.answer in str(trace.nodes[-1].message.content))


class SumsConfig(vf.TasksetConfig):
    task: SumsTaskConfig = SumsTaskConfig()


class SumsTaskset(vf.Taskset[SumsTask, SumsConfig]):
    def load(self) -> list[SumsTask]:
        return [SumsTask(SumsData(prompt=question, answer=answer), self.config.task) for question, answer in rows]
