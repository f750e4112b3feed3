// A minimal checkout of τ²-bench, with sentences of our own: sources of the same kinds as
// upstream's, and data of the mock domain that are enough to make a world. The other domains have
// files of the same names, without loadable content.

import { upstreamDomains } from "./upstream.ts";

const modelSource = `from enum import Enum
from typing import Any, Dict, List, Literal, Optional, Union

from pydantic import BaseModel, Field

from tau2.utils.pydantic_utils import BaseModelNoExtra

Colour = Literal["red", "green"]
Shade = Colour


class Size(str, Enum):
    """How large."""

    SMALL = "s"
    LARGE = "l"  # not used


class Part(BaseModel):
    number: int = Field(description="Its number")
    label: Optional[str] = Field(None, description="A label")


class Wheel(Part):
    size: Size = Field(default=Size.SMALL, description="Its size")
    spokes: List[str] = Field(default_factory=list)

    def turn(self) -> None:
        pass


class Closed(BaseModelNoExtra):
    """Takes nothing else."""

    any_of_it: Any = 3
    by_name: Dict[str, float]


if __name__ == "__main__":
    print("not run")
`;

export const toolsSource = `"""Tools of a workshop."""
from typing import List, Union

from tau2.domains.mock.data_model import Closed, Shade, Size, Wheel
from tau2.environment.toolkit import ToolKitBase, ToolType, is_tool


class MockTools(ToolKitBase):
    """What a workshop does."""

    def __init__(self, db) -> None:
        super().__init__(db)

    def helper(self, anything, *more):
        return anything

    @property
    def shelf(self):
        return 1

    @is_tool(ToolType.WRITE)
    def mend(self, wheels: List[Wheel | dict], shade: Shade, how_often: int = 2) -> str:
        """Mends wheels.
        Twice, if need be.

        Note:
            Bring the wheels.

        Args:
            wheels: The wheels,
                one after another.
            shade (str): Their new shade.

        Returns:
            What was done.
        """
        return ""

    @is_tool(ToolType.READ)
    def look(self):
        return None

    @is_tool(ToolType.READ)
    def lock(self, settings: Union[Closed, dict], size: Union[Size, str] = Size.LARGE) -> None:
        """
        Locks.
        """
`;

const toolkitSource = `from typing import Optional


def is_tool(tool_type=None, mutates_state: Optional[bool] = None):
    return lambda method: method


def is_discoverable_tool(tool_type=None, mutates_state: Optional[bool] = None):
    return lambda method: method


class ToolKitType(type):
    pass


class ToolType:
    READ = "read"
    WRITE = "write"


class ToolKitBase:
    pass
`;

const utilsSource = `from pydantic import BaseModel, ConfigDict


class BaseModelNoExtra(BaseModel):
    model_config = ConfigDict(extra="forbid")
`;

export const agentText = `from x import y

AGENT_INSTRUCTION = """
Mend what is broken.
""".strip()

AGENT_GT_INSTRUCTION = """
Do as the list says.
""".strip()

AGENT_SOLO_INSTRUCTION = """
Say {stop_function_name} at the end.
""".strip()
`;

export const judgeText = `class NLAssertionsEvaluator:
    @classmethod
    def evaluate_nl_assertions(cls, trajectory, nl_assertions):
        words = "\\n".join([str(one) for one in trajectory])
        system_prompt = """
        Say what is true.
        """
        user_prompt = f"{words}"
        return ask(system_prompt, user_prompt)
`;

const task = {
  id: "first",
  user_scenario: { persona: null, instructions: "Ask for a task." },
  evaluation_criteria: { actions: [], reward_basis: ["DB"] },
};

const contents = new Map([
  ["db.json", '{"tasks": {}, "users": {"ann": {"user_id": "ann", "name": "Ann", "tasks": []}}}'],
  ["user_db.json", '{"notifications": {}}'],
  ["tasks.json", JSON.stringify([task, { ...task, id: "second" }])],
  ["split_tasks.json", '{"base": ["second"], "all": ["first", "second"]}'],
  ["policy.md", "# Be kind\r\n"],
]);

const bankTools = `from typing import TYPE_CHECKING

from tau2.environment.toolkit import ToolKitBase, ToolType, is_discoverable_tool, is_tool

if TYPE_CHECKING:
    pass


class KnowledgeTools(ToolKitBase):
    db: dict

    @is_tool(ToolType.READ)
    def look(self, name: str) -> str:
        """Looks somebody up."""
        return ""

    @is_discoverable_tool(ToolType.WRITE)
    def mend_1234(self, name: str) -> str:
        """Mends a thing.

        Args:
            name (string): Its name
        """
        return ""


class KnowledgeUserTools(ToolKitBase):
    @is_tool(ToolType.WRITE)
    def ask(self) -> str:
        """Asks."""
        return ""
`;

const bankSearches = `from tau2.environment.toolkit import ToolKitType, ToolType, is_tool


class KBSearchMixin(metaclass=ToolKitType):
    @is_tool(ToolType.READ)
    def KB_search(self, query: str) -> str:
        """Searches."""
        return ""


class GrepMixin(metaclass=ToolKitType):
    @is_tool(ToolType.READ)
    def grep(self, pattern: str) -> str:
        """Greps."""
        return ""
`;

const bankData = "data/tau2/domains/banking_knowledge";
const bankPrompts = ["no_knowledge", "full_kb", "required_docs", "classic_rag_bm25", "classic_rag_bm25_no_grep"];

/** The bank of a small checkout: two documents, and one task. */
export const smallBank: ReadonlyMap<string, string> = new Map([
  [`${bankData}/db.json`, '{"users": {"data": {"1": {"name": "Ann", "user_id": "1"}}, "notes": "People."}}'],
  ...[...bankPrompts, "grep_only"].map(
    (name) => [`${bankData}/prompts/${name}.md`, "{{component:policy_header}} {{full_knowledge_base}}"] as const,
  ),
  [`${bankData}/prompts/components/policy_header.md`, "Be fair."],
  [`${bankData}/prompts/components/additional_instructions.md`, "Be quick."],
  [`${bankData}/documents/b.json`, '{"id": "b", "title": "Fees", "content": "A fee of $5."}'],
  [`${bankData}/documents/a.json`, '{"id": "a", "title": "Cards", "content": "A card is free.\\nNo fee."}'],
  [`${bankData}/documents/notes.txt`, "Not a document."],
  [`${bankData}/tasks/task_1.json`, JSON.stringify({ ...task, id: "task_1" })],
  ["src/tau2/domains/banking_knowledge/tools.py", bankTools],
  ["src/tau2/domains/banking_knowledge/retrieval_mixins.py", bankSearches],
]);

export const smallCheckout: ReadonlyMap<string, string> = new Map([
  ...upstreamDomains.flatMap(({ name, files, agent, user }) => [
    ...files.map((file) => [`data/tau2/domains/${name}/${file}`, contents.get(file) ?? `${name} ${file}\n`] as const),
    ...[agent, user]
      .filter((side) => side !== null)
      .map(
        ({ module, className }) =>
          [`src/tau2/domains/${name}/${module}.py`, toolsSource.replace("MockTools", className)] as const,
      ),
  ]),
  ["data/tau2/user_simulator/simulation_guidelines.md", "Play the customer."],
  ["data/tau2/user_simulator/simulation_guidelines_tools.md", "Play the customer, and use your phone."],
  ["src/tau2/domains/mock/data_model.py", modelSource],
  ["src/tau2/environment/toolkit.py", toolkitSource],
  ["src/tau2/utils/pydantic_utils.py", utilsSource],
  ["src/tau2/agent/llm_agent.py", agentText],
  ["src/tau2/evaluator/evaluator_nl_assertions.py", judgeText],
]);
