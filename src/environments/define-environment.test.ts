import { describe, expect, it } from "vitest";
import { ConfigurationError, faultAt } from "../core/index.ts";
import { type JsonObject, parseJson } from "../python-semantics/json/index.ts";
import { environmentViolations } from "../testing/index.ts";
import { defineEnvironment, type EnvironmentDefinition } from "./index.ts";

type Shelf = { loans: Record<string, number> };

const definition = {
  name: "library-desk",
  guidelines: "Renew a loan once.",
  tools: {
    renew: {
      description: "Renews a loan.",
      parameters: { type: "object", properties: { book: { type: "string" } }, required: ["book"] },
      run: ({ book }, state) => {
        const days = state.loans[String(book)];
        if (days === undefined) throw new Error("no such loan");
        state.loans[String(book)] = days + 14;
        return { days: days + 14 };
      },
    },
    close: { description: "Ends.", parameters: { type: "object" }, endsEpisode: true, run: () => "closed" },
  },
  tasks: { test: [{ instruction: "You want to keep Emma.", state: { loans: { Emma: 3 } } }] },
  grade: ({ state, said }) => (state.loans["Emma"] === 17 && said.length > 0 ? 1 : 0),
} satisfies EnvironmentDefinition<Shelf>;

describe("defineEnvironment()", () => {
  it("keeps the contract of environments", async () => {
    expect(await environmentViolations(defineEnvironment(definition), { tasks: 3, calls: 200 })).toEqual([]);
  });

  it("rewards calls where a tool says what they are worth; refused ones have no reward", async () => {
    const { tools } = definition;
    const reward = ({
      args,
      state,
      result,
    }: {
      args: Readonly<Record<string, unknown>>;
      state: Shelf;
      result: unknown;
    }) => ((result as { days: number }).days === state.loans[String(args["book"])] ? 0.5 : null);
    const source = defineEnvironment({ ...definition, tools: { ...tools, renew: { ...tools.renew, reward } } });
    const environment = source.open(source.taskset("test").task(0));
    const renew = (book: string) => environment.call({ name: "renew", arguments: new Map([["book", book]]) });
    expect(renew("Emma")).toMatchObject({ text: '{"days": 17}', reward: 0.5 });
    expect(renew("Persuasion")).not.toHaveProperty("reward");
    expect(environment.call({ name: "close", arguments: new Map() })).not.toHaveProperty("reward");
    const wrong = { ...definition, tools: { renew: { ...tools.renew, reward: 1 as never } } };
    expect(() => defineEnvironment(wrong)).toThrow("tools.renew.reward is 1, expected a function");
  });

  it("takes names that every object has for names like others, and checks what they name", async () => {
    const named = (item: unknown) => Object.fromEntries(["__proto__", "constructor"].map((name) => [name, item]));
    const tasks = named([{ state: { loans: { Emma: 3 } }, info: named(1) }]) as typeof definition.tasks;
    const tools = named(definition.tools.renew) as typeof definition.tools;
    const source = defineEnvironment({ ...definition, tools, tasks });
    expect(source.splits).toEqual(["__proto__", "constructor"]);
    for (const name of source.splits) {
      const environment = source.open(source.taskset(name).task(0));
      expect([...environment.info.keys()]).toEqual(["__proto__", "constructor"]);
      expect(environment.call({ name, arguments: new Map([["book", "Emma"]]) })).toMatchObject({
        text: '{"days": 17}',
      });
    }
    expect(await environmentViolations(source, { tasks: 1, calls: 20 })).toEqual([]);
    for (const wrong of [{ tools: named({}) }, { tasks: named([{ states: 1 }]) }])
      expect(() => defineEnvironment({ ...definition, ...(wrong as object) })).toThrow("__proto__");
  });

  it("carries out calls on a state of its own and grades it with what was said", async () => {
    const source = defineEnvironment(definition);
    const task = source.taskset("test").task(0);
    const environment = source.open(task);
    const call = { name: "renew", arguments: new Map([["book", "Emma"]]) };
    expect(environment.call(call)).toMatchObject({ text: '{"days": 17}', isError: false });
    expect(environment.grade({ outcome: "completed" })).toMatchObject({ reward: 0 });
    await environment.receiveUtterance("Renewed.");
    expect(environment.grade({ outcome: "completed" })).toMatchObject({ reward: 1 });
    expect(environment.grade({ outcome: "truncated" })).toMatchObject({ reward: 0 });
    expect(source.open(task).call({ ...call, arguments: new Map([["book", "Ulysses"]]) })).toMatchObject({
      text: "Error: no such loan",
      isError: true,
    });
    expect(source.open(task).call(call)).toMatchObject({ text: '{"days": 17}' });
  });

  it("grades a truncated episode only if the definition says so", () => {
    const steps = {
      name: "steps",
      guidelines: "",
      tools: { step: { description: "A step.", parameters: { type: "object" }, run: () => null } },
      tasks: { train: [{ state: {} }] },
      grade: ({ outcome }: { readonly outcome: string }) => (outcome === "truncated" ? 0.5 : 1),
    };
    const rewards = [false, true].map((gradesTruncated) => {
      const source = defineEnvironment({ ...steps, gradesTruncated });
      const environment = source.open(source.taskset("train").task(0));
      return (["completed", "truncated"] as const).map((outcome) => environment.grade({ outcome }));
    });
    expect(rewards).toMatchObject([
      [{ reward: 1 }, { reward: 0 }],
      [{ reward: 1 }, { reward: 0.5 }],
    ]);
  });

  it("answers numbers that JSON does not have with an observation, so that no tool is blamed for echoing them", () => {
    const echo = { description: "Echoes.", parameters: { type: "object" }, run: (given: unknown) => given };
    const source = defineEnvironment({ ...definition, tools: { echo } });
    const environment = source.open(source.taskset("test").task(0));
    for (const text of ['{"a": NaN}', '{"a": {"b": [1, -Infinity]}}', '{"a": 1e999}', `{"a": 1${"0".repeat(400)}}`]) {
      expect(environment.call({ name: "echo", arguments: parseJson(text) as JsonObject })).toMatchObject({
        text: "Error: the arguments hold NaN or an infinity; numbers must be finite",
        isError: true,
      });
    }
    const fine = environment.call({ name: "echo", arguments: parseJson('{"a": [1.5, null, "NaN"]}') as JsonObject });
    expect(fine).toMatchObject({ text: '{"a": [1.5, null, "NaN"]}', isError: false });
  });

  it("refuses unknown splits, unknown tasks and empty definitions with the remedy", () => {
    const source = defineEnvironment(definition);
    expect(() => source.taskset("train")).toThrow(ConfigurationError);
    expect(() => source.taskset("test").task(1)).toThrow("indexes go from 0 to 0");
    expect(() => defineEnvironment({ ...definition, tools: {} })).toThrow("at least one tool");
  });
});

describe("a tool's fault", () => {
  const calling = async (fault: Error) => {
    const run = async () => Promise.reject(fault);
    const tools = { ask: { description: "Asks.", parameters: { type: "object" }, run } };
    const source = defineEnvironment({ ...definition, tools });
    return source.open(source.taskset("test").task(0)).call({ name: "ask", arguments: new Map() });
  };

  it("is thrown on where it says so, and read by the policy otherwise", async () => {
    await expect(calling(faultAt("environment", "unreachable", "gone"))).rejects.toMatchObject({
      failure: { boundary: "environment", code: "unreachable", message: "gone" },
    });
    expect(await calling(faultAt("engine", "overloaded", "not mine"))).toMatchObject({ isError: true });
    expect(await calling(new Error("no such loan"))).toMatchObject({ text: "Error: no such loan", isError: true });
  });
});

describe("environmentViolations()", () => {
  it("finds shared state, randomness and throwing calls", async () => {
    let shared = 0;
    const counting = defineEnvironment({
      ...definition,
      tools: { count: { description: "", parameters: { type: "object" }, run: () => ++shared } },
    });
    expect((await environmentViolations(counting)).join()).toContain("not deterministic");
    const source = defineEnvironment(definition);
    const throwing = {
      ...source,
      open: (task: Parameters<typeof source.open>[0]) =>
        Object.assign(source.open(task), {
          call: () => {
            throw new Error("boom");
          },
        }),
    };
    expect((await environmentViolations(throwing)).join()).toContain("a bad call must be an observation");
  });
});
