import { describe, expect, it } from "vitest";

import { ConfigurationError } from "../../../core/index.ts";
import { dumpJson, type JsonValue } from "../../../python-semantics/json/index.ts";
import type { PythonSource } from "../../checkout/python-source.ts";
import { parseSource } from "./read-checkout.ts";
import { readRules, readTasks, readToolList, readToolSchema } from "./read-sources.ts";
import { parseUserPrompts, readUserPromptContents } from "./user-prompts.ts";
import { rulesSource, tasksSource, toolListSource, toolSource, userSourceText } from "./small-checkout.test-helper.ts";

const source = (text: string): PythonSource => parseSource("source.py", text);

/** Tests that each change of a source is refused with its message. */
function refuses(read: (text: string) => unknown, original: string, changes: readonly (readonly string[])[]): void {
  it.each(changes.map(([from = "", to = "", problem = ""]) => [from, to, problem] as const))(
    "refuses %j turned into %j",
    (from, to, problem) => {
      const changed = original.replace(from, to);
      expect(changed).not.toBe(original);
      expect(() => read(changed)).toThrow(ConfigurationError);
      expect(() => read(changed)).toThrow(
        /^Cannot read "source\.py", line \d+: .*; take the sources of commit \w+\.$/s,
      );
      expect(() => read(changed)).toThrow(problem);
    },
  );
}

describe("readTasks()", () => {
  const read = (text: string): JsonValue[] => readTasks(source(text), "TASKS_TEST");

  it("reads calls as records in one order of keys, the annotator where there is one", () => {
    expect(dumpJson(read(tasksSource))).toBe(
      '[{"annotator": "7", "user_id": "ann_1", "instruction": "You are Ann. Your \\"lamp\\" is broken.", "actions": ' +
        '[{"name": "mend", "kwargs": {"lamp": 1, "parts": ["a", ["b", -2.0]], "soon": true, "note": null}}, ' +
        '{"name": "think", "kwargs": {}}], "outputs": ["10", "ten"]}, {"user_id": "bob_2", "instruction": "You are Bob.", ' +
        '"actions": [], "outputs": []}]',
    );
  });

  it("knows the classes by the names they are imported under", () => {
    const renamed = tasksSource.replace("Action, Task", "Action, Task as T").replaceAll("Task(", "T(");
    expect(read(renamed)).toEqual(read(tasksSource));
  });

  refuses(read, tasksSource, [
    ["Action, Task", "Action", '"Task" is not imported'],
    ["tau_bench.types", "os", '"Task" is not imported'],
    ["\nTASKS_TEST", "\nTask = print\nTASKS_TEST", '"Task" is defined a second time'],
    ["TASKS_TEST = [", "TASKS = [", 'there is no assignment "TASKS_TEST"'],
    ["TASKS_TEST = [", "TASKS_TEST = list([", "this is not Python"],
    ['annotator="7"', "annotator=7", "not text"],
    ['annotator="7"', 'level="7"', 'Task is given "level"'],
    ['annotator="7"', 'user_id="7"', 'Task is given "user_id" twice'],
    ['annotator="7"', '**{"annotator": "7"}', "more than plain keywords"],
    ['annotator="7"', '"7"', "more than plain keywords"],
    ['user_id="bob_2", ', "", 'Task is not given "user_id"'],
    ['name="mend"', 'name=open("/etc/passwd").read()', "not a literal"],
    ["    Task(user_id", "    print(user_id", "not a call of Task"],
    ["    Task(user_id", "    x.Task(user_id", "not a call of Task"],
    ["kwargs={}", "kwargs=[]", "the arguments of an action are not a dictionary"],
    ["kwargs={}", 'kwargs={"a": Action(name="b", kwargs={})}', "not a literal"],
    ["actions=[]", "actions=None", "not a list"],
    ['outputs=["10"', "outputs=[10", "not text"],
    [", outputs=[]),\n]", ", outputs=[])]\nTASKS_TEST.pop()", "a statement could change"],
  ]);
});

describe("readToolList() and readToolSchema()", () => {
  const readList = (text: string): unknown => readToolList(source(text));
  const readSchema = (text: string): unknown => readToolSchema(source(text), "Mend");

  it("lists classes with their modules in the order of the list", () => {
    expect(readList(toolListSource)).toEqual([
      { module: "think", className: "Think" },
      { module: "mend", className: "Mend" },
    ]);
  });

  it("reads what get_info returns, whatever else the class does", () => {
    expect(dumpJson(readToolSchema(source(toolSource), "Mend"))).toBe(
      '{"type": "function", "function": {"name": "mend", "description": "Mends a lamp. It takes a number.", "parameters": ' +
        '{"type": "object", "properties": {"lamp": {"type": "integer", "minimum": 16}}, "required": ["lamp"]}}}',
    );
  });

  refuses(readList, toolListSource, [
    ["from .mend", "from ..mend", "not imported from a module beside"],
    ["from .mend", "from .a.mend", "not imported from a module beside"],
    ["from .mend", "from mend", "not imported from a module beside"],
    ["from .mend import Mend", "from . import Mend", "not imported from a module beside"],
    ["from .mend import Mend", "import Mend", "not imported from a module beside"],
    ["Mend]", "Mend()]", "this is not a class"],
    ["Mend]", "Lend]", 'there is no import "Lend"'],
    ["Mend]", "Mend]\nALL_TOOLS.reverse()", "a statement could change"],
  ]);

  refuses(readSchema, toolSource, [
    ["class Mend", "class Lend", 'there is no class "Mend"'],
    ["class Mend", "@final\nclass Mend", "is decorated"],
    ["def get_info", "def info", 'there is no function "get_info"'],
    ["    @staticmethod\n    def get_info", "    @cached\n    def get_info", '"get_info" is decorated'],
    ["        return {", '        log("x")\n        return {', "more than return a literal"],
    ["        return {", "        if x: return 1\n        return {", "more than return a literal"],
    ['"minimum": 0x10', '"minimum": LEAST', "not a literal"],
    ['"name": "mend"', '"title": "mend"', "this describes no tool"],
    ["class Mend(Tool):", "class Mend(Tool):\n    exec('1')\n", "a statement could change"],
  ]);

  it("refuses a method that returns several values", () => {
    const changed = `${toolSource.trimEnd()}, 1\n`;
    expect(() => readSchema(changed)).toThrow("does not return one literal");
  });
});

describe("readRules()", () => {
  it("reads a list of texts", () => {
    expect(readRules(source(rulesSource))).toEqual(["Be kind.", "Be brief."]);
  });
  refuses((text) => readRules(source(text)), rulesSource, [['"Be kind."', "1", "not text"]]);
});

describe("readUserPromptContents()", () => {
  const read = (text: string): JsonValue => readUserPromptContents(source(text));
  const prompts = parseUserPrompts(dumpJson(read(userSourceText)), "user_prompts.json");

  it("gives the texts that the functions would build", () => {
    expect(prompts.greeting).toBe("Good {morning}!");
    expect(prompts.system("{x}}")).toBe("Play a customer {politely}.<{x}}>\nEnd with ###STOP###.");
    expect(prompts.system(null)).toBe("Play a customer {politely}.\nEnd with ###STOP###.");
    expect(prompts.reactSystem("Buy.")).toBe("Think first. Buy.");
    expect(prompts.reactSystem(null)).toBe("Think first.");
    expect(prompts.check({ transcript: "T{response}", response: "R" })).toBe("Fit? T{response} / R");
    expect(prompts.reflect({ transcript: "T", response: "R" })).toBe("Why not? R\nT");
  });

  refuses(read, userSourceText, [
    ["class ReactUser", "class ActUser", 'there is no class "ReactUserSimulationEnv"'],
    ["Good {morning}!", "Bad {morning}!", "not all simulated users are greeted alike"],
    ['"content": "Good {morning}!"', '"content": hello()', "not a literal"],
    ['"role": "user", "content": "Good', '"role": "tool", "content": "Good', "does not begin with"],
    ["self.messages = [", "self.words = [", '"self.messages" is not assigned'],
    ['return f"Think', 'return g + f"Think', 'the name "g" is not known here'],
    ['return f"Think', 'print(1)\n        return f"Think', "built in a way not known"],
    ["is None else", "== 3 else", "depends on more than whether a name is None"],
    ["is None else", "is not None else", "is None where text is required"],
    ['"Fit?', '"Fit? {model.name}', "more than a plain name"],
    ['    prompt = f"Fit', "    prompt = ''\n    prompt = f\"Fit", '"prompt" is written a second time'],
    [
      '    return "true" in',
      "    if response:\n        prompt += 'x'\n    return \"true\" in",
      "written a second time",
    ],
    ['    prompt = f"Fit', '    words = f"Fit', 'has no variable "prompt"'],
    ["Env):\n    pass", "Env):\n    def build_system_prompt(self): return ''", "has a prompt of its own"],
  ]);
});

describe("parseUserPrompts()", () => {
  const texts = readUserPromptContents(source(userSourceText));
  const changed = (key: string, value: JsonValue): string => dumpJson(new Map([...texts, [key, value]]));

  it.each([
    ["no JSON", "{", "it is not JSON"],
    ["no object", "[]", 'it has no string "greeting"'],
    ["a missing text", changed("check", 1), 'it has no string "check"'],
    ["an unknown placeholder", changed("check", "{model}"), 'in "check", "{model}" is none of its placeholders'],
    ["an instruction where there is none", changed("system_without_instruction", "{instruction}"), "(none)"],
    ["a single brace", changed("reflect", "a } b"), 'a single "}" stands in it'],
    ["an open placeholder", changed("reflect", "a {resp"), '"{resp}" is none'],
  ])("refuses %s and names the file", (_what, text, problem) => {
    expect(() => parseUserPrompts(text, "here/user_prompts.json")).toThrow(ConfigurationError);
    expect(() => parseUserPrompts(text, "here/user_prompts.json")).toThrow(problem);
    expect(() => parseUserPrompts(text, "here/user_prompts.json")).toThrow('"here/user_prompts.json"');
  });
});
