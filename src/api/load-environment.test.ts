import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ConfigurationError, type EnvironmentSource } from "../core/index.ts";
import { defineEnvironment } from "../environments/index.ts";
import { tauBenchDomains } from "../environments/tau-bench/index.ts";
import { environmentNames } from "./environments.ts";
import { loadEnvironment, placeOfFault, checkedSource } from "./load-environment.ts";

const agenda = {
  greetings: [""],
  slots: [],
  goals: [
    {
      name: "a",
      requests: ["A?"],
      slots: [],
      confirmation: null,
      secondThought: null,
      settledBy: ["a"],
      objections: [],
    },
  ],
  farewells: ["Bye."],
  patience: 2,
};
const tool = { description: "Does it.", parameters: { type: "object", properties: {} }, run: () => 1 };
const definition = {
  name: "lamp",
  guidelines: "Switch it.",
  tools: { switch_lamp: tool },
  tasks: { test: [{ instruction: "On.", agenda, state: {} }] },
  grade: () => 1,
};

const define = (changes: object): EnvironmentSource => defineEnvironment({ ...definition, ...changes });
const withTool = (changes: object) => define({ tools: { switch_lamp: { ...tool, ...changes } } });
const withTask = (changes: object) => define({ tasks: { test: [{ state: {}, ...changes }] } });
const withGoal = (changes: object) => withTask({ agenda: { ...agenda, goals: [{ ...agenda.goals[0], ...changes }] } });
const { run: _, ...withoutRun } = tool;
const { patience: __, ...withoutPatience } = agenda;

describe("defineEnvironment() refuses what is not a definition, with its place:", () => {
  it.each<readonly [string, () => unknown, string]>([
    ["nothing", () => defineEnvironment(undefined as never), "the definition is missing, expected an object"],
    ["no name", () => define({ name: " " }), 'name is " ", expected a string that is not empty'],
    ["guidelines", () => define({ guidelines: 5 }), 'environment "lamp": guidelines is 5, expected a string.'],
    [
      "no grader",
      () => define({ grade: undefined }),
      "grade is missing, expected a function, or what defineRubric returned",
    ],
    [
      "a misspelt grader",
      () => define({ grade: undefined, grader: () => 1 }),
      "grade is missing, and grader is unknown",
    ],
    ["a set-up that is none", () => define({ setup: {} }), "setup is an object, expected a function"],
    [
      "a misspelt teardown",
      () => define({ tearDown: () => 1 }),
      "tearDown is unknown; expected one of name, guidelines",
    ],
    ["a resume of its own", () => define({ resume: "again" }), 'resume is "again", expected "replay" or "restart"'],
    ["no tools", () => define({ tools: {} }), "it needs at least one tool and one task"],
    ["a list of tools", () => define({ tools: [tool] }), "tools is a list of 1, expected an object"],
    ["no tasks", () => define({ tasks: { test: [] } }), "it needs at least one tool and one task"],
    ["tasks without a split", () => define({ tasks: [{ state: {} }] }), "tasks is a list of 1, expected an object"],
    [
      "a misspelt run",
      () => define({ tools: { a: { ...withoutRun, rnu: () => 1 } } }),
      "tools.a.run is missing, and tools.a.rnu is unknown",
    ],
    ["a run that is none", () => withTool({ run: "x" }), 'tools.switch_lamp.run is "x", expected a function'],
    ["a flag that is none", () => withTool({ endsEpisode: "yes" }), 'endsEpisode is "yes", expected true or false'],
    ["no schema", () => withTool({ parameters: undefined }), "tools.switch_lamp.parameters is missing"],
    [
      "a schema of a list",
      () => withTool({ parameters: { type: "array" } }),
      'parameters.type is "array", expected "object"',
    ],
    [
      "an unknown type",
      () => withTool({ parameters: { type: "object", properties: { a: { type: "sting" } } } }),
      'properties.a.type is "sting", expected one of',
    ],
    [
      "a property that is none",
      () => withTool({ parameters: { type: "object", properties: { a: "string" } } }),
      'properties.a is "string", expected an object',
    ],
    [
      "required that is none",
      () => withTool({ parameters: { type: "object", required: true } }),
      "required is true, expected a list",
    ],
    [
      "a schema with a function",
      () => withTool({ parameters: { type: "object", check: () => 1 } }),
      "parameters is not plain data (a function has no JSON form)",
    ],
    [
      "a task without state",
      () => withTask({ state: undefined }),
      "tasks.test[0].state is missing, expected plain data",
    ],
    [
      "a state with a set",
      () => withTask({ state: new Set() }),
      "tasks.test[0].state is not plain data (an instance of Set has no JSON form)",
    ],
    ["a misspelt instruction", () => withTask({ instrution: "x" }), "tasks.test[0].instrution is unknown"],
    [
      "an agenda without patience",
      () => withTask({ agenda: withoutPatience }),
      "tasks.test[0].agenda.patience is missing, expected a number of at least 1",
    ],
    [
      "an agenda without goals",
      () => withTask({ agenda: { ...agenda, goals: [] } }),
      "agenda.goals is a list of 0, expected a list with at least 1 item",
    ],
    ["a goal without requests", () => withGoal({ requests: undefined }), "agenda.goals[0].requests is missing"],
    ["a goal whose slots are none", () => withGoal({ slots: [{ name: "a" }] }), "goals[0].slots[0].phrases is missing"],
    ["a getter that throws", () => defineEnvironment({ ...definition, get guidelines(): string { throw new Error("no"); } }), 'environment "lamp": no.'], // prettier-ignore
  ])("%s", (_name, make, message) => {
    expect(make).toThrow(ConfigurationError);
    expect(make).toThrow(message);
  });

  it("but takes one that is", () => {
    expect(define({}).users).toContain("agenda");
    expect(withTask({}).users).not.toContain("agenda");
  });
});

describe("checkedSource()", () => {
  const source = define({});
  const twoTasks = define({ tasks: { test: [{ state: 1 }, { state: 2 }] } });
  const tasksAre = (task: (index: number) => unknown, size: unknown = 2) => ({
    ...twoTasks,
    taskset: (split: string) => ({ ...twoTasks.taskset(split), size, task }),
  });
  const real = (index: number) => twoTasks.taskset("test").task(index);

  it.each<readonly [string, unknown, string]>([
    ["nothing", null, "has no name, splits, users, argumentErrors, taskset, open"],
    ["no users", { ...source, users: [] }, "has no users"],
    ["a split that throws", { ...source, taskset: () => { throw new Error("no"); } }, "as an environment: no;"], // prettier-ignore
    ["a split without size", tasksAre(real, "2"), 'the size of split "test" is 2, expected a whole number'],
    ["no task", tasksAre(real, 0), "it has no task"],
    ["a task that throws null", tasksAre(() => { throw null; }), 'Cannot take task 0 of split "test" of "env.ts": null;'], // prettier-ignore
    [
      "a task without id",
      tasksAre((index) => ({ ...real(index), id: undefined })),
      "id is undefined, expected a string",
    ],
    [
      "a task whose agenda is code",
      tasksAre((index) => ({ ...real(index), agenda: { run: () => 1 } })),
      "a function has no JSON form",
    ],
    [
      "two tasks of one id",
      tasksAre(() => real(0)),
      'task 0 of split "test" and task 1 of split "test" have the same id',
    ],
    [
      "a schema that is none",
      define({ tools: { a: { ...tool, parameters: { type: "object", properties: { a: { minimum: "x" } } } } } }),
      "not a usable JSON Schema",
    ],
  ])("refuses %s", (_name, value, message) => {
    expect(() => checkedSource(value, "env.ts")).toThrow(ConfigurationError);
    expect(() => checkedSource(value, "env.ts")).toThrow(message);
  });

  it("leaves a world that cannot be opened to its episodes", () => {
    const failing = { ...source, open: () => { throw new Error("no"); } }; // prettier-ignore
    expect(checkedSource(failing, "env.ts").name).toBe("lamp");
    expect(() => checkedSource(source, "env.ts").taskset("test").task(1)).toThrow(RangeError);
  });
});

describe("a module with a fault is shown with its place:", () => {
  let folder = "";
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "load-"));
    const files = {
      "syntax.mjs": "export default {\n  tools: 1 + ;\n};\n",
      "typescript.ts": "const a: number = ;\nexport default a;\n",
      "imports.mjs": 'import "./syntax.mjs";\nexport default 1;\n',
      "throws.mjs": 'throw new Error("no database");\n',
      "throws-null.mjs": "throw null;\n",
    };
    for (const [name, source] of Object.entries(files)) await writeFile(join(folder, name), source);
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  it.each([
    ["syntax.mjs", "syntax.mjs:2:14"],
    ["imports.mjs", "syntax.mjs:2:14"],
    ["typescript.ts", "typescript.ts:1:19"],
  ])("%s", async (name, place) => {
    expect(await placeOfFault(join(folder, name), new SyntaxError("x"))).toBe(join(folder, place));
  });

  it.each([
    ["throws.mjs", /Cannot load environment "\.\/throws\.mjs": no database.*; correct the module/],
    ["throws-null.mjs", /Cannot load environment "\.\/throws-null\.mjs": null; correct the module/],
  ])("%s", async (name, message) => {
    await expect(loadEnvironment(`./${name}`, { cwd: folder })).rejects.toThrow(message);
  });
});

describe("checkedSource()", () => {
  it("passes on how an environment resumes, and what it is opened with", async () => {
    const source = define({
      resume: "restart",
      setup: async (given: { readonly seed: number }) => ({ seed: given.seed }),
    });
    const seeds: unknown[] = [];
    const checked = checkedSource(
      {
        ...source,
        open: (...given: Parameters<EnvironmentSource["open"]>) => (seeds.push(given[1]?.seed), source.open(...given)),
      },
      "lamp.ts",
    );
    expect(checked.resume).toBe("restart");
    await checked.open(checked.taskset("test").task(0), { seed: 7, signal: new AbortController().signal });
    expect(seeds.at(-1)).toBe(7);
    expect(() => checkedSource({ ...source, resume: "again" }, "lamp.ts")).toThrow("its default export has no resume");
  });

  it("closes what it opens to look at the tools", async () => {
    let [opened, closed] = [0, 0];
    const source = define({ setup: async () => void opened++, teardown: () => void closed++ });
    checkedSource(source, "lamp.ts");
    await new Promise((resolve) => setTimeout(resolve, 10));
    expect([opened, closed]).toEqual([1, 1]);
  });
});

describe("environmentNames", () => {
  it("has every domain of tau-bench, whose module is loaded when one is opened", () => {
    const listed = environmentNames.filter((name) => name.startsWith("tau-bench/"));
    expect(listed).toEqual(tauBenchDomains.map((domain) => `tau-bench/${domain}`));
  });
});
