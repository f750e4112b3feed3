// Environments that break every promise, each beside healthy episodes: the outcome of their
// episodes is checked, the others are not affected, and the run can be read and exported
// afterwards. Code that ends or blocks the process is in `cli/hostile-process.wire.test.ts`.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, it, vi } from "vitest";
import { createToolCalling } from "../agents/index.ts";
import {
  AttributedError,
  type Environment,
  type EnvironmentSource,
  type Episode,
  type LocalEnvironmentSource,
  type Task,
} from "../core/index.ts";
import { createSglangEngine } from "../engines/sglang/index.ts";
import { defineEnvironment } from "../environments/index.ts";
import { episodeSamples } from "./index.ts";
import { slimeRowLine, toSlimeRow } from "../export/index.ts";
import { createHandlerClient } from "../http/handler-client.test-helper.ts";
import { parseJson } from "../python-semantics/json/index.ts";
import { createQwenRenderer } from "../renderers/index.ts";
import { createFileRunStore, openRunFolder } from "../store/index.ts";
import { createFunctionSampler, createSglangFront } from "../testing/index.ts";
import { createReadableTokenizer } from "../tokenizers/index.ts";
import { scriptedUsers } from "../users/index.ts";
import { runRollout, episodeRunner } from "./index.ts";

const never = new Promise<never>(() => {});
const holder: unknown[] = [];
holder.push(holder, holder);
const thrower = (error: unknown) => () => {
  throw error;
};
const unreadable = new Proxy(
  {},
  {
    get: thrower(new Error("a trap")),
    has: thrower(new Error("a trap")),
    ownKeys: thrower(new Error("a trap")),
    getPrototypeOf: thrower(new Error("a trap")),
  },
);
const strangeError = Object.defineProperty(new Error("x"), "message", { get: thrower(null) });
const lying = new AttributedError({
  boundary: "engine",
  code: "context-length",
  message: "",
  retryable: true,
  cause: null,
});

const thenable = (then: (resolve: (value: unknown) => void) => void): object =>
  Object.defineProperty({}, ["th", "en"].join(""), { value: then });

const later = <T>(value: T, ms: number): Promise<T> => new Promise((resolve) => setTimeout(() => resolve(value), ms));

type State = { count: number; isHostile: boolean };
type Tool = (args: Readonly<Record<string, unknown>>, state: State) => unknown;
type Grade = (episode: { readonly state: State; readonly initial: State; readonly said: readonly string[] }) => unknown;

const bookkeeping: Tool = ({ by }, state) => ({ count: (state.count += Number(by)) });

/** The first task has the hostile tool and grader, the others a tool that counts. */
function environment({
  tool = bookkeeping,
  grade,
}: {
  readonly tool?: Tool;
  readonly grade?: Grade;
}): LocalEnvironmentSource {
  return defineEnvironment<State>({
    name: "counter",
    guidelines: "Count when asked.",
    tools: {
      count: {
        description: "Counts up.",
        parameters: { type: "object", properties: { by: { type: "integer" } }, required: ["by"] },
        run: (args, state) => (state.isHostile ? tool : bookkeeping)(args, state),
      },
      leave: { description: "Ends.", parameters: { type: "object" }, endsEpisode: true, run: () => "bye" },
    },
    tasks: { test: [true, false, false].map((isHostile) => Object.freeze({ state: { count: 0, isHostile } })) },
    grade: (episode) => {
      if (grade !== undefined && episode.state.isHostile) return grade(episode) as number;
      return episode.state.count === 3 && episode.said.length === 1 ? 1 : 0;
    },
  });
}

/** The first task opens a wrong environment. */
function opening(hostile: (healthy: Environment, task: Task) => unknown): EnvironmentSource {
  const source = environment({});
  return {
    ...source,
    open: (task) => (task.index === 0 ? (hostile(source.open(task), task) as Environment) : source.open(task)),
  };
}

const replacing = (parts: object) => opening((healthy) => Object.assign(healthy, parts));
/** The same world, whose healthy tasks are set up asynchronously. */
function settingUp({ setup, teardown }: { readonly setup?: () => unknown; readonly teardown?: () => void }) {
  const source = environment({});
  const hostile = async (task: Task): Promise<Environment> => {
    const resource: unknown = await setup?.();
    expect(resource).not.toBe(1);
    return Object.assign(source.open(task), { close: () => teardown?.() });
  };
  return { ...source, open: (task: Task) => (task.index === 0 ? hostile(task) : source.open(task)) };
}
const returning = (value: unknown) => environment({ tool: () => value });
const resulting = (changes: object) =>
  replacing({ call: () => ({ text: "", isError: false, endsEpisode: false, info: new Map(), ...changes }) });
const grading = (changes: object) =>
  replacing({ grade: () => ({ reward: 1, metrics: {}, log: "", info: new Map(), ...changes }) });
const rewarding = (reward: unknown) => environment({ grade: () => reward });

/** Expected outcome of its episodes: "boundary/code" of their failure, or the reward. */
type Outcome = string | number;
const badResult = "environment/bad-result";
const badGrade = "grader/bad-result";

const table: readonly (readonly [name: string, source: EnvironmentSource, outcome: Outcome])[] = [
  // Rewards.
  ...[NaN, Infinity, -Infinity, "1", undefined, null, true, 1n, {}, [1], Symbol("1"), () => 1].map(
    (reward) => [`a reward that is ${typeof reward}`, rewarding(reward), badGrade] as const,
  ),
  ["a reward that is a proxy", rewarding(unreadable), "grader/unexpected"],
  ["a reward that comes later", environment({ grade: async () => 0.5 }), 0.5],
  ["a grader that throws", environment({ grade: thrower(new Error("no")) }), "grader/unexpected"],
  ["a grader that throws null", environment({ grade: thrower(null) }), "grader/unexpected"],
  ["a grader that rejects", environment({ grade: () => Promise.reject(new Error("no")) }), "grader/unexpected"],
  ["a grader that never ends", environment({ grade: () => never }), "grader/timeout"],
  [
    "a grader that changes what it is given",
    environment({ grade: (all) => (Object.assign(all.initial, { count: 9 }), (all.said as string[]).push("x"), 1) }),
    1,
  ],
  ["a grade that is none", replacing({ grade: () => null }), badGrade],
  ["a metric that is NaN", grading({ metrics: { a: NaN } }), badGrade],
  ["a metric that is a string", grading({ metrics: { a: "1" } }), badGrade],
  ["metrics that are none", grading({ metrics: undefined }), badGrade],
  [
    "metrics of strange names",
    grading({
      metrics: Object.fromEntries([
        ["__proto__", 1],
        ["", 2],
      ]),
    }),
    1,
  ],
  ["a log that is none", grading({ log: 5 }), badGrade],
  ["turn rewards that are none", grading({ turnRewards: 1 }), badGrade],
  ["turn rewards with a string", grading({ turnRewards: [1, "0"] }), badGrade],
  ["turn rewards with NaN", grading({ turnRewards: [1, NaN] }), badGrade],
  ["turn rewards with holes", grading({ turnRewards: Array(2) }), badGrade],
  ["turn rewards without end", grading({ turnRewards: Array(20_000_000) }), badGrade],
  ["turn rewards that are null", grading({ turnRewards: null }), 1],
  ["an info with Infinity", grading({ info: new Map([["a", Infinity]]) }), badGrade],
  ["an info with a function", grading({ info: new Map([["a", () => 1]]) }), badGrade],
  ["an info without end", grading({ info: new Map([["a", "x".repeat(20_000_000)]]) }), badGrade],

  // Results of tools.
  ["a reward of a call that is NaN", resulting({ reward: NaN }), badResult],
  ["a reward of a call that is a string", resulting({ reward: "1" }), badResult],
  ["a result that is a function", returning(() => 1), badResult],
  ["a result that is a symbol", returning(Symbol("x")), badResult],
  ["a result that is a bigint", returning(1n), badResult],
  ["a result that holds itself", returning(holder), badResult],
  ["a result that is an instance", returning(new WeakMap()), badResult],
  ["a result that is NaN", returning({ price: NaN }), badResult],
  [
    "a result whose getter throws",
    returning(Object.defineProperty({}, "a", { enumerable: true, get: thrower(null) })),
    badResult,
  ],
  ["a result that is a proxy", returning(unreadable), 0],
  ["a result of a thousand million items", returning(Array(2 ** 32 - 1)), badResult],
  ["no result", returning(undefined), 0],
  ["a result that has __proto__", returning(parseable('{"__proto__": {"isAdmin": true}, "constructor": 1}')), 0],
  ["a result of ten million characters", returning("\u{1f680}".repeat(5_000_000)), 0],
  ["a result that comes later", environment({ tool: async (args, state) => bookkeeping(args, state) }), 1],
  ["a result that is a thenable", returning(thenable((resolve) => resolve("x"))), 0],
  ["a result that never comes", returning(never), "environment/timeout"],
  ["a result that never comes, as a thenable", returning(thenable(() => undefined)), "environment/timeout"],
  ["a tool that rejects", environment({ tool: () => Promise.reject(new Error("no")) }), 0],
  ["a tool that throws null", environment({ tool: thrower(null) }), 0],
  ["a tool that throws undefined", environment({ tool: thrower(undefined) }), 0],
  ["a tool that throws an object", environment({ tool: thrower({ message: { a: 1 } }) }), 0],
  ["a tool that throws a symbol", environment({ tool: thrower(Symbol("x")) }), 0],
  ["a tool that throws what cannot be read", environment({ tool: thrower(unreadable) }), 0],
  ["a tool that throws an error that cannot be read", environment({ tool: thrower(strangeError) }), 0],
  ["a tool that throws our own error", environment({ tool: thrower(lying) }), 0],
  [
    "a tool that changes its arguments",
    environment({
      tool: (args, state) => (Object.assign(args, { by: 9, __proto__: null }), bookkeeping({ by: 3 }, state)),
    }),
    1,
  ],
  [
    "a tool that leaves functions in the state",
    environment({ tool: (args, state) => (Object.assign(state, { f: () => 1 }), bookkeeping(args, state)) }),
    1,
  ],
  ["a call that throws", replacing({ call: thrower(new Error("no")) }), "environment/unexpected"],
  ["a call that throws undefined", replacing({ call: thrower(undefined) }), "environment/unexpected"],
  ["a call that blames the engine", replacing({ call: thrower(lying) }), "environment/context-length"],
  ["a call that rejects", replacing({ call: () => Promise.reject(new Error("no")) }), "environment/unexpected"],
  ["a call that returns nothing", replacing({ call: () => undefined }), badResult],
  ["a result without a text", resulting({ text: 5 }), badResult],
  ["a result whose flag is a word", resulting({ isError: "no" }), badResult],
  ["a result whose info is a list", resulting({ info: [1] }), badResult],
  [
    "a call that changes its arguments",
    opening((healthy) =>
      Object.assign(healthy, {
        call: ((call) => (given: Parameters<Environment["call"]>[0]) => (
          given.arguments.set("by", 4),
          call({ ...given, arguments: new Map([["by", 3]]) })
        ))(healthy.call.bind(healthy)),
      }),
    ),
    1,
  ],

  // The environment itself.
  ["a task that cannot be opened", opening(thrower(new Error("no"))), "environment/unexpected"],
  ["an environment that never comes", opening(() => never), "environment/timeout"],
  ["an environment that comes later", opening(async (healthy) => healthy), 1],
  ["an environment that is null", opening(() => null), badResult],
  ["an environment that is a proxy", opening(() => unreadable), "environment/unexpected"],
  ["an environment without call", replacing({ call: undefined }), badResult],
  [
    "an environment whose tools throw",
    opening((healthy) => Object.defineProperty(healthy, "tools", { get: thrower(new Error("no")) })),
    badResult,
  ],
  ["tools that are none", replacing({ tools: {} }), badResult],
  [
    "two tools of one name",
    opening((healthy) => Object.assign(healthy, { tools: [...healthy.tools, ...healthy.tools] })),
    badResult,
  ],
  ["a tool whose definition is a function", replacing({ tools: [{ name: "a", definition: () => 1 }] }), badResult],
  ["guidelines that are none", replacing({ guidelines: null }), badResult],
  ["an info that is none", replacing({ info: null }), badResult],
  ["a frozen environment", opening((healthy) => Object.freeze(healthy)), 1],
  ["a task that is changed", opening((healthy, task) => (Object.assign(task, { id: 5, agenda: () => 1 }), healthy)), 1],
  ["hearing that throws", replacing({ receiveUtterance: thrower(new Error("deaf")) }), "environment/unexpected"],
  [
    "hearing that rejects",
    replacing({ receiveUtterance: () => Promise.reject(new Error("deaf")) }),
    "environment/unexpected",
  ],
  ["hearing that never ends", replacing({ receiveUtterance: () => never }), "environment/timeout"],
  ["an environment that comes too late", opening((healthy) => later(healthy, 400)), "environment/timeout"],
  ["an opening that rejects", opening(() => Promise.reject(new Error("no"))), "environment/unexpected"],
  ["a setup that throws", settingUp({ setup: thrower(new Error("no")) }), "environment/unexpected"],
  ["a setup that never ends", settingUp({ setup: () => never }), "environment/timeout"],
  ["a setup that is slow", settingUp({ setup: () => later({}, 50) }), 1],
  ["a teardown that throws", settingUp({ teardown: thrower(new Error("no")) }), 1],
  ["a closing that is none", replacing({ close: 5 }), badResult],
  ["a closing that throws", replacing({ close: thrower(null) }), 1],
  ["a closing that rejects", replacing({ close: () => Promise.reject(new Error("no")) }), 1],
  ["a closing that never ends", replacing({ close: () => never }), 1],
  ["a closing that returns what it should not", replacing({ close: () => unreadable }), 1],
  ["an environment that cannot be used and not be closed", replacing({ tools: {}, close: thrower(null) }), badResult],
  [
    "a call that adds listeners to its signal",
    opening((healthy) =>
      Object.assign(healthy, {
        call: ((call) => (given: Parameters<Environment["call"]>[0], options: { readonly signal: AbortSignal }) => {
          for (let nth = 0; nth < 5; nth++) options.signal.addEventListener("abort", thrower(new Error("no")));
          return call(given);
        })(healthy.call.bind(healthy)),
      }),
    ),
    1,
  ],
  [
    "another working folder",
    environment({
      tool: (args, state) => (vi.spyOn(process, "cwd").mockReturnValue("/nowhere"), bookkeeping(args, state)),
    }),
    1,
  ],
];

function parseable(text: string): unknown {
  return JSON.parse(text);
}

const folders: string[] = [];
afterEach(async () => {
  vi.restoreAllMocks();
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true, force: true });
});

const tokenizer = createReadableTokenizer();
const call = (name: string, args: object) =>
  `<tool_call>\n${JSON.stringify({ name, arguments: args })}\n</tool_call><|im_end|>`;
const script = [call("count", { by: 3 }), "Done.<|im_end|>", call("leave", {})].map((text) => tokenizer.encode(text));

async function runScript(
  source: EnvironmentSource,
): Promise<{ readonly episodes: Episode[]; readonly rows: string[] }> {
  const front = createSglangFront({
    sampler: createFunctionSampler(({ requestId }) => ({ ids: script[Number(/_t(\d+)_r\d+$/.exec(requestId)?.[1])]! })),
    contextLength: 400_000,
  });
  const renderer = createQwenRenderer({ tokenizer, family: "qwen2.5-instruct" });
  const parts = {
    environment: source,
    engine: createSglangEngine({ http: createHandlerClient((asked) => front.handle(asked), { boundary: "engine" }) }),
    renderer,
    strategy: createToolCalling(),
    user: scriptedUsers(["Count to 3.", "Thanks."]),
  };
  const place = await mkdtemp(join(tmpdir(), "hostile-"));
  folders.push(place);
  const store = createFileRunStore(join(place, "run"), { fsync: "never" });
  await store.begin(new Map());
  const timeouts = { openMs: 300, environmentMs: 300, graderMs: 300, userMs: 5000, closeMs: 300 };
  await runRollout(
    { taskset: source.taskset("test"), taskIndexes: [0, 1, 2], groupSize: 2, seed: 1 },
    {
      runEpisode: episodeRunner(parts, { timeouts, maxResultCharacters: 1000 }),
      store,
      exportSamples: ({ episode, result }, { index, groupIndex }) =>
        result.samples.map((sample) => {
          const origin = { index, groupIndex, episode, sampleCount: result.samples.length };
          return slimeRowLine(
            toSlimeRow(sample, origin, { decode: (ids) => tokenizer.decode(ids), allowTextDelta: false }),
          );
        }),
    },
  );
  await store.close(new Map());
  const run = openRunFolder(join(place, "run"));
  const episodes: Episode[] = [];
  for await (const episode of run.episodes()) episodes.push(episode);
  const rows: string[] = [];
  for await (const row of run.sampleLines()) rows.push(row);
  return { episodes, rows };
}

it.each(table)("%s", async (_name, source, outcome) => {
  const { episodes, rows } = await runScript(source);
  const of = (isHostile: boolean) => episodes.filter(({ task }) => (task.index === 0) === isHostile);
  const healthy = of(false).map(({ reward, stopReason }) => `${stopReason} ${reward}`);
  expect(healthy).toEqual(Array(4).fill("tool_ended 1"));
  expect(
    of(true).map(({ failure, reward }) => (failure === null ? reward : `${failure.boundary}/${failure.code}`)),
  ).toEqual([outcome, outcome]);
  const graded = episodes.filter(({ reward }) => reward !== null);
  for (const episode of episodes)
    expect(episodeSamples(episode).samples).toHaveLength(graded.includes(episode) ? 1 : 0);
  expect(rows.map((row) => (parseJson(row) as Map<string, unknown>).get("reward"))).toHaveLength(graded.length);
  for (const { failure } of of(true)) expect(failure?.message ?? "a message").toMatch(/\w/);
});

it("a result that is too long is cut with a note, and counted", async () => {
  const { episodes } = await runScript(returning("\u{1f680}".repeat(5_000_000)));
  const [result] = episodes
    .filter(({ task }) => task.index === 0)
    .flatMap(({ events }) => events.filter(({ type }) => type === "tool-result"));
  expect(result).toMatchObject({ cutFrom: 10_000_000, result: { isError: false } });
  const text = result?.type === "tool-result" ? result.result.text : "";
  expect(text).toBe(
    `${"\u{1f680}".repeat(500)}\n[The result was cut: its first 1000 of 10000000 characters are shown.]`,
  );
});
