import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";

import { describe, expect, it } from "vitest";
import type { EnvironmentSource } from "../core/index.ts";
import { defineEnvironment, type EnvironmentDefinition } from "../environments/index.ts";
import { environmentViolations, examineEnvironment, type EnvironmentExamination } from "./index.ts";

type Lamp = { isOn: boolean };
type Definition = EnvironmentDefinition<Lamp, unknown>;

const switchLamp: Definition["tools"][string] = {
  description: "Switches the lamp.",
  parameters: { type: "object", properties: { on: { type: "boolean" } }, required: ["on"] },
  run: ({ on }, state) => {
    state.isOn = on === true;
    return state;
  },
};
const definition: Definition = {
  name: "lamp",
  guidelines: "Switch it.",
  tools: { switch_lamp: switchLamp },
  tasks: { test: [{ instruction: "On.", state: { isOn: false } }] },
  grade: () => 0,
};

const lamp = (changes: Partial<Definition>): EnvironmentSource => defineEnvironment({ ...definition, ...changes });
const withTool = (changes: object): EnvironmentSource =>
  lamp({ tools: { switch_lamp: { ...switchLamp, ...changes } } });

/** Findings that are not ok, as `result check`. */
async function found(source: EnvironmentSource, options: EnvironmentExamination = {}): Promise<readonly string[]> {
  const findings = await examineEnvironment(source, { calls: 20, ...options });
  return findings.filter(({ result }) => result !== "ok").map(({ result, check }) => `${result} ${check}`);
}

describe("examineEnvironment()", () => {
  it("finds nothing in an environment that keeps its contract", async () => {
    const findings = await examineEnvironment(lamp({}), { calls: 20 });
    expect(findings.map(({ check, result }) => [check, result])).toEqual(
      [
        ...["tasks", "opening", "tools", "calls", "deadlines", "grading", "determinism", "isolation", "closing"],
        ...["constant policy", "failing tools", "cancelled calls", "time", "result size"],
      ].map((check) => [check, "ok"]),
    );
  });

  it("finds results of chance, unless the world is not to be replayed", async () => {
    let count = 0;
    const changes = { tools: { switch_lamp: { ...switchLamp, run: () => count++ } } };
    expect(await found(lamp(changes))).toEqual(["fault determinism"]);
    expect(await found(lamp({ ...changes, resume: "restart" }))).toEqual([]);
  });

  it("finds rewards of calls that chance decides", async () => {
    let count = 0;
    expect(await found(withTool({ reward: () => count++ }))).toEqual(["fault determinism"]);
  });

  it("finds a tool that answers otherwise while another episode runs", async () => {
    let last = "";
    let open = 0;
    const source = lamp({
      setup: ({ task }) => {
        open++;
        last = task.id;
      },
      teardown: () => void open--,
      // Two environments are open for a single episode, because one is kept untouched.
      tools: { switch_lamp: { ...switchLamp, run: () => `${last} ${open > 2 ? "crowded" : "alone"}` } },
    });
    expect(await found(source)).toEqual(["fault isolation"]);
  });

  it("finds grades that change what they grade, and grades that are not numbers", async () => {
    let count = 0;
    expect(await found(lamp({ grade: () => count++ % 2 }))).toContain("fault grading");
    expect(await found(lamp({ grade: () => Number.NaN }))).toContain("fault grading");
    const failing = lamp({
      grade: () => {
        throw new Error("no such state");
      },
    });
    expect(await found(failing)).toEqual(["fault grading"]);
  });

  it("says what a constant policy earns, and when nothing can be learned", async () => {
    const [warning] = (await examineEnvironment(lamp({ grade: ({ state }) => (state.isOn ? 1 : 0) }))).filter(
      ({ result }) => result !== "ok",
    );
    expect(warning).toMatchObject({ check: "constant policy", result: "warning" });
    expect(warning!.text).toContain('calls switch_lamp({"on": true})');
    expect(warning!.text).toContain("earns 1 on average, more than 0 in 1 of 1 tasks");
    expect(await found(lamp({ grade: ({ said }) => said.length }))).toEqual(["warning constant policy"]);
    expect(await found(lamp({ grade: () => 1 }))).toEqual(["fault constant policy"]);
  });

  it("says what reciting the guidelines, or the phrases of the agenda, earns", async () => {
    const parts = { slots: [], confirmation: null, secondThought: null, objections: [] };
    const goals = [{ ...parts, name: "light", requests: ["On."], settledBy: ["is lit"] }];
    const agenda = { greetings: [""], slots: [], goals, farewells: ["Bye."], patience: 2 };
    const tasks = { test: [{ agenda, state: { isOn: false } }] };
    const warningOf = async (grade: Definition["grade"]): Promise<string> => {
      const findings = await examineEnvironment(lamp({ grade, tasks }));
      return findings.find(({ check, result }) => check === "constant policy" && result === "warning")!.text;
    };
    expect(await warningOf(({ said }) => (said.includes(definition.guidelines) ? 1 : 0))).toContain(
      "the policy that repeats the guidelines, earns 1 on average",
    );
    expect(await warningOf(({ said }) => (said.some((line) => line.includes("is lit")) ? 1 : 0))).toContain(
      "the policy that says every phrase of the agenda, earns 1 on average",
    );
  });

  it.each<readonly [string, EnvironmentDefinition<Lamp, unknown>["tools"][string]["run"]]>([
    ["a mistake", (_, state) => (state as unknown as { lamps: { on: boolean }[] }).lamps[0]!.on],
    ["a mistake that names an argument", (args, state) => (state as never)[String(args["on"])]["x"]],
    ["what was never written", () => { throw new Error("not written yet"); }], // prettier-ignore
    ["what is not there", () => readFileSync("/nowhere/lamps.json", "utf8")],
    ["a promise that is rejected", () => Promise.reject(new Error("the service is down"))],
  ])("names a tool that throws in every call: %s", async (_, run) => {
    const broken = { ...switchLamp, run };
    const findings = await examineEnvironment(lamp({ tools: { switch_lamp: switchLamp, broken } }), { calls: 20 });
    const { result, text, remedy } = findings.find(({ check }) => check === "failing tools")!;
    expect([result, text, remedy]).toEqual([
      "warning",
      expect.stringMatching(/^Every one of \d+ calls of "broken" was answered by "Error: /),
      expect.stringContaining("correct its code"),
    ]);
  });

  it("does not take a refusal for a mistake, and finds ids by calling", async () => {
    type Shelf = { books: string[]; sold: string[] };
    const parameters = { type: "object", properties: { book: { type: "string" } }, required: ["book"] };
    const shelf = defineEnvironment<Shelf>({
      name: "shelf",
      guidelines: "Sell.",
      grade: () => 0,
      tasks: { test: [{ instruction: "Sell one.", state: { books: ["B-71", "B-72"], sold: [] } }] },
      tools: {
        sell: {
          description: "Sells.",
          parameters,
          run: ({ book }, { books, sold }) => {
            if (!books.includes(String(book))) throw new Error("no book has that number");
            return sold.push(String(book));
          },
        },
        list: { description: "Lists.", parameters: { type: "object", properties: {} }, run: (_, { books }) => books },
        order: {
          description: "Orders.",
          parameters,
          run: ({ book }) => {
            throw new Error(`there is no book ${String(book)}`);
          },
        },
      },
    });
    const findings = await examineEnvironment(shelf, { calls: 20 });
    expect(findings.filter(({ check }) => check === "failing tools")).toEqual([
      {
        check: "failing tools",
        result: "ok",
        remedy: null,
        text: '2 of 3 tools succeeded; what was tried did not suit "order".',
      },
    ]);
  });

  it("names the first tools of many that fail, and lists the others", async () => {
    const names = Array.from({ length: 8 }, (_, at) => `tool_${at}`);
    const run = (): never => {
      throw new TypeError("x is not a function");
    };
    const tools = Object.fromEntries(names.map((name) => [name, { ...switchLamp, run }]));
    const findings = await examineEnvironment(lamp({ tools }), { calls: 20 });
    const texts = findings.filter(({ check }) => check === "failing tools").map(({ text }) => text);
    expect(texts).toHaveLength(7);
    expect(texts[5]).toBe('The same holds for "tool_5", "tool_6", "tool_7", each with an answer of its own.');
    expect(texts[6]).toBe("0 of 8 tools succeeded.");
  });

  it("finds what cannot be opened, and what cannot be closed", async () => {
    const closed = lamp({ setup: () => Promise.reject(new Error("nothing listens")) });
    expect(await found(closed)).toEqual(["fault opening"]);
    const stuck = lamp({ setup: () => 1, teardown: () => Promise.reject(new Error("it is gone")) });
    expect((await found(stuck)).slice(0, 1)).toEqual(["fault closing"]);
  });

  it("closes every episode once, those that fail included", async () => {
    const counts = { opened: 0, closed: 0 };
    const resource = { setup: () => counts.opened++, teardown: () => void counts.closed++ };
    await examineEnvironment(lamp(resource));
    expect(counts.opened).toBeGreaterThan(5);
    expect(counts.closed).toBe(counts.opened);
    await examineEnvironment(lamp({ ...resource, tools: { switch_lamp: { ...switchLamp, run: () => Symbol("no") } } }));
    expect(counts.closed).toBe(counts.opened);
  });

  it("ends with a fault where a call never does", async () => {
    const source = withTool({ run: () => new Promise(() => undefined) });
    expect(await found(source, { timeoutMs: 30 })).toEqual(["fault deadlines"]);
  });

  it("closes what opens too late", async () => {
    let closed = 0;
    const source = lamp({ setup: () => delay(60), teardown: () => void closed++ });
    expect(await found(source, { timeoutMs: 20 })).toEqual(["fault opening"]);
    await expect.poll(() => closed).toBe(1);
  });

  it("tells a long call that ends with its signal from one that does not", async () => {
    const slow = (heeds: boolean) =>
      withTool({
        run: async (_: unknown, __: unknown, { signal }: { readonly signal: AbortSignal }) => {
          await delay(260, undefined, heeds ? { signal } : {});
          return "done";
        },
      });
    const short = { calls: 3, tasks: 1, seed: 4 };
    expect(await found(slow(true), short)).toEqual([]);
    expect(await found(slow(false), short)).toEqual(["warning cancelled calls"]);
  });

  it("finds results that fill the context", async () => {
    expect(await found(withTool({ run: () => "x".repeat(30_000) }))).toEqual(["warning result size"]);
  });

  it("tries the other tools of a world in which one ends the episode", async () => {
    const tried = new Set<string>();
    const tool = (name: string, endsEpisode: boolean) => ({
      ...switchLamp,
      endsEpisode,
      run: () => void tried.add(name),
    });
    const source = lamp({ tools: { end: tool("end", true), a: tool("a", false), b: tool("b", false) } });
    expect(await environmentViolations(source, { calls: 60 })).toEqual([]);
    expect([...tried].toSorted()).toEqual(["a", "b", "end"]);
  });
});
