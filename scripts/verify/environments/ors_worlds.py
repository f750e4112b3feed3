"""Worlds for ors-sdk's own server: sums with a step reward, and a lamp whose tool belongs only to its task. GET /verify is not part of the protocol: it counts sessions, so that a test can find unclosed ones.

    PORT=8080 python ors_worlds.py
"""

import asyncio
import os

from ors import Environment, Server, tool
from ors.types import ImageBlock, ListToolsOutput, Split, TextBlock, ToolOutput, ToolSpec
from pydantic import BaseModel, Field

counts = {"made": 0, "closed": 0}


class Answer(BaseModel):
    value: int = Field(description="The sum")


class Sums(Environment):
    """Two sums; each right answer is worth half a point, and the second ends the episode."""

    def __init__(self, task_spec={}, secrets={}):
        super().__init__(task_spec, secrets)
        self.answered = 0

    async def setup(self):
        counts["made"] += 1
        await asyncio.sleep(0.005)

    def teardown(self):
        counts["closed"] += 1

    @classmethod
    def list_splits(cls):
        return [Split(name="train", type="train"), "hard"]

    @classmethod
    def list_tasks(cls, split):
        size = 32 if split == "train" else 4
        return [{"id": f"{split}-{n}", "left": n, "right": 2 * n + 1} for n in range(size)]

    def get_prompt(self):
        spec = self.task_spec
        return [TextBlock(text=f"What is {spec['left']} + {spec['right']}?"), TextBlock(text="Answer twice.")]

    @tool
    def answer(self, given: Answer) -> ToolOutput:
        """Answers the question."""
        self.answered += 1
        right = given.value == self.task_spec["left"] + self.task_spec["right"]
        return ToolOutput(
            blocks=[TextBlock(text="right" if right else "wrong"), ImageBlock(data="aGk=", mimeType="image/png")],
            metadata={"answered": self.answered},
            reward=0.5 if right else 0.0,
            finished=self.answered == 2,
        )

    @tool
    def look(self) -> ToolOutput:
        """Shows the question again."""
        return ToolOutput(blocks=self.get_prompt())

    @tool
    def recite(self) -> ToolOutput:
        """A long answer, in several events."""
        return ToolOutput(blocks=[TextBlock(text="lorem ü " * 1200)])

    @tool
    def break_down(self) -> ToolOutput:
        """Raises."""
        raise RuntimeError("the world broke")


class Lamp(Environment):
    """Its only useful tool belongs to the task."""

    def teardown(self):
        counts["closed"] += 1

    def setup(self):
        counts["made"] += 1

    @classmethod
    def list_splits(cls):
        return ["test"]

    @classmethod
    def list_tasks(cls, split):
        return [{"id": "lamp"}]

    def get_prompt(self):
        return [TextBlock(text="Switch the lamp on.")]

    @tool
    def wait(self) -> ToolOutput:
        """Waits."""
        return ToolOutput(blocks=[TextBlock(text="nothing happens")])

    @tool(shared=False)
    def switch(self) -> ToolOutput:
        """Switches the lamp."""
        return ToolOutput(blocks=[TextBlock(text="the lamp is on")], reward=1.0, finished=True)

    def list_task_tools(self):
        return ListToolsOutput(tools=[ToolSpec(name="switch", description="Switches the lamp.", input_schema=None)])


server = Server([Sums, Lamp])


@server.app.get("/verify")
def verify():
    return counts


# The server routes every unknown path to its first environment.
for middleware in server.app.user_middleware:
    if "root_paths" in middleware.kwargs:
        middleware.kwargs["root_paths"].add("verify")

if __name__ == "__main__":
    server.run(host="127.0.0.1", port=int(os.environ.get("PORT", "8080")))
