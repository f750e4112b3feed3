// A small checkout with content of our own: the same kinds of files and statements as upstream's,
// two domains with one or two tools and tasks. It copies no upstream text.

export const tasksSource = `from tau_bench.types import Action, Task

TASKS_TEST = [
    Task(
        outputs=["10", "ten"],  # the order of keywords is free
        annotator="7",
        user_id="ann_1",
        instruction="You are Ann. "
        'Your "lamp" is broken.',
        actions=[
            Action(name="mend", kwargs={"lamp": 1, "parts": ["a", ("b", -2.0)], "soon": True, "note": None}),
            Action(kwargs={}, name="think"),
        ],
    ),
    Task(user_id="bob_2", instruction="You are Bob.", actions=[], outputs=[]),
]
`;

export const toolSource = `import json
from typing import Any, Dict

from tau_bench.envs.tool import Tool


class Mend(Tool):
    """Mends."""

    @staticmethod
    def invoke(data: Dict[str, Any], lamp: int) -> str:
        if lamp not in data["lamps"]:
            return f"no lamp {lamp:>3}"
        for other in data["lamps"]:
            data["lamps"][other] += 1
        return json.dumps([number for number in data["lamps"]])

    @staticmethod
    def get_info() -> Dict[str, Any]:
        return {
            "type": "function",
            "function": {
                "name": "mend",
                "description": (
                    "Mends a lamp. "
                    "It takes a number."
                ),
                "parameters": {
                    "type": "object",
                    "properties": {"lamp": {"type": "integer", "minimum": 0x10}},
                    "required": ["lamp"],
                },
            },
        }
`;

export const toolListSource = `from .mend import Mend
from .think import Think as Ponder

ALL_TOOLS = [Ponder, Mend]
`;

export const rulesSource = `RULES = ["Be kind.", "Be " + "brief."]
`;

export const userSourceText = `from litellm import completion


class LLMUserSimulationEnv(BaseUserSimulationEnv):
    def build_system_prompt(self, instruction):
        shown = ("<" + instruction + ">") if instruction is not None else ""
        return f"""Play a customer {{politely}}.{shown}
End with ###STOP###."""

    def reset(self, instruction=None):
        self.messages = [
            {"role": "system", "content": self.build_system_prompt(instruction=instruction)},
            {"role": "user", "content": "Good {morning}!"},
        ]
        return self.generate_next_message(self.messages)


class ReactUserSimulationEnv(LLMUserSimulationEnv):
    def build_system_prompt(self, instruction):
        shown = "" if instruction is None else " " + instruction
        return f"Think first.{shown}"


class VerifyUserSimulationEnv(LLMUserSimulationEnv):
    def reset(self, instruction=None):
        self.messages = [
            {"role": "system", "content": self.build_system_prompt(instruction=instruction)},
            {"role": "user", "content": "Good {morning}!"},
        ]
        return self.generate_next_message(self.messages)


class ReflectionUserSimulationEnv(LLMUserSimulationEnv):
    pass


def verify(model, response, messages):
    transcript = "\\n".join([f"{message['role']}: {message['content']}" for message in messages])
    prompt = f"Fit? {transcript} / {response}"
    return "true" in completion(model=model, messages=[{"role": "user", "content": prompt}])


def reflect(model, response, messages):
    transcript = "\\n".join([message["content"] for message in messages])
    prompt = f"""Why not? {response}
{transcript}"""
    return completion(model=model, messages=[{"role": "user", "content": prompt}])
`;

const thinkSource = toolSource
  .replace("class Mend", "class Think")
  .replace('"name": "mend"', '"name": "think"')
  .replace('"""Mends."""', "words = 3");

function domainFiles(name: string, tables: readonly string[], splits: readonly (readonly [string, string])[]) {
  const folder = `tau_bench/envs/${name}`;
  return [
    ...tables.map((table) => [`${folder}/data/${table}.json`, `{ "${table}_1": {"price": 247.0 } }\n`] as const),
    [`${folder}/wiki.md`, `# ${name}\r\n`] as const,
    [`${folder}/rules.py`, rulesSource] as const,
    [`${folder}/tools/__init__.py`, toolListSource] as const,
    [`${folder}/tools/mend.py`, toolSource] as const,
    [`${folder}/tools/think.py`, thinkSource] as const,
    ...splits.map(
      ([split, variable]) => [`${folder}/tasks_${split}.py`, tasksSource.replace("TASKS_TEST", variable)] as const,
    ),
  ];
}

const displays = `{"messages_display": "user: hi"}\n{"messages_display": "user: ho"}\n`;

export const smallCheckout: ReadonlyMap<string, string> = new Map([
  ...domainFiles(
    "retail",
    ["users", "orders", "products"],
    [
      ["train", "TASKS_TRAIN"],
      ["test", "TASKS_TEST"],
      ["dev", "TASKS_DEV"],
    ],
  ),
  ...domainFiles("airline", ["users", "flights", "reservations"], [["test", "TASKS"]]),
  ["tau_bench/envs/user.py", userSourceText],
  ["few_shot_data/MockRetailDomainEnv-few_shot.jsonl", displays],
]);
