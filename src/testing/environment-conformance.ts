// The contract of environments, as checks without a test runner: run them in your own tests, or print what they find.
// Seeded and bounded. It proves the contract, not that the domain makes sense.

import type { Environment, EnvironmentSource, Task } from "../core/environment.ts";
import { messageOf } from "../core/failure.ts";
import { toolParameters } from "../core/message.ts";
import { dumpJson } from "../python-semantics/json/dump-json.ts";
import { JsonFloat, type JsonObject, type JsonValue } from "../python-semantics/json/value.ts";
import { createRandom, deriveSeed, type Random } from "../lib/random.ts";

export type EnvironmentConformanceOptions = {
  /** Tasks tried of every split. Default: 5. */
  readonly tasks?: number;
  /** Calls made in each. Default: 40. */
  readonly calls?: number;
  /** Default: 1. */
  readonly seed?: number;
};

/** Everything is awaited. */
const inTime = { signal: new AbortController().signal };

type Step = { readonly name: string; readonly arguments: JsonObject } | { readonly utterance: string };

/** What is wrong, one sentence each; empty when the contract holds. */
export async function environmentViolations(
  source: EnvironmentSource,
  options: EnvironmentConformanceOptions = {},
): Promise<string[]> {
  const { tasks = 5, calls = 40, seed = 1 } = options;
  const violations: string[] = [];
  const report = (text: string): void => {
    violations.push(`Environment "${source.name}": ${text}`);
  };
  if (source.splits.length === 0) report("it has no split.");
  if (source.users.length === 0) report("no user simulator supports it.");
  const ids = new Set<string>();
  for (const split of source.splits) {
    const taskset = source.taskset(split);
    if (taskset.size < 1) report(`split "${split}" has no task.`);
    if (!throwsRangeError(() => taskset.task(taskset.size)))
      report(`split "${split}" does not refuse a task past its end.`);
    for (let nth = 0; nth < Math.min(tasks, taskset.size); nth++) {
      const index = Math.floor((nth * taskset.size) / tasks);
      const task = taskset.task(index);
      if (ids.has(task.id)) report(`task id "${task.id}" is used twice.`);
      ids.add(task.id);
      if (source.taskset(split).task(index).contentHash !== task.contentHash)
        report(`task "${task.id}" differs from itself.`);
      await checkTask(source, task, { random: createRandom(deriveSeed(seed, task.id)), calls, report });
    }
  }
  return violations;
}

async function checkTask(
  source: EnvironmentSource,
  task: Task,
  context: { readonly random: Random; readonly calls: number; readonly report: (text: string) => void },
): Promise<void> {
  const { random, calls, report } = context;
  const opened: Environment[] = [];
  const open = async (): Promise<Environment> => {
    const environment = await source.open(task, { seed: 1, ...inTime });
    opened.push(environment);
    return environment;
  };
  const untouched = await open();
  const before = untouched.digest();
  const environment = await open();
  const steps = Array.from({ length: calls }, () => randomStep(environment, random));
  try {
    const first = await replay(environment, steps);
    const second = await replay(await open(), steps);
    if (first !== second)
      report(`replaying the calls of task "${task.id}" gives other results; it is not deterministic.`);
  } catch (error) {
    report(`task "${task.id}" threw on a call: ${String(error)}; a bad call must be an observation.`);
  }
  if (untouched.digest() !== before) report(`an episode of task "${task.id}" changed the state of another.`);
  const names = new Set(environment.tools.map((tool) => tool.name));
  if (names.size !== environment.tools.length) report("two tools have one name.");
  for (const one of opened) {
    try {
      await one.close?.();
    } catch (error) {
      report(`an episode of task "${task.id}" cannot be closed: ${messageOf(error)}`);
    }
  }
}

/** Everything an episode shows, as text. */
async function replay(environment: Environment, steps: readonly Step[]): Promise<string> {
  const shown: string[] = [];
  for (const step of steps) {
    if ("utterance" in step) {
      await environment.hear(step.utterance, inTime);
      continue;
    }
    const result = await environment.call(step, inTime);
    shown.push(`${result.text} ${result.isError} ${result.endsEpisode} ${dumpJson(result.info)}`);
  }
  for (const outcome of ["completed", "completed", "truncated"] as const) {
    const grade = await environment.grade({ outcome }, inTime);
    shown.push(`${grade.reward} ${JSON.stringify(grade.metrics)} ${grade.log} ${dumpJson(grade.info)}`);
  }
  if (shown.at(-2) !== shown.at(-3)) shown.push(`grading twice differs ${Math.random()}`);
  shown.push(environment.digest());
  return shown.join("\n");
}

function randomStep(environment: Environment, random: Random): Step {
  if (random.integer(8) === 0)
    return { utterance: random.pick(["", "Your order is on its way.", "\ud83d\ude80 \ud800"]) };
  if (environment.tools.length === 0 || random.integer(10) === 0) return { name: "no_such_tool", arguments: new Map() };
  const tool = random.pick(environment.tools);
  const schema = toolParameters(tool);
  const properties = schema instanceof Map ? schema.get("properties") : null;
  const names = properties instanceof Map ? [...properties.keys()] : [];
  const args: JsonObject = new Map();
  for (const name of names) if (random.integer(5) > 0) args.set(name, hostileValue(random));
  if (random.integer(6) === 0) args.set(random.pick(["__proto__", "data", "constructor", "1"]), hostileValue(random));
  return { name: tool.name, arguments: args };
}

function hostileValue(random: Random): JsonValue {
  return random.pick<JsonValue>([
    null,
    true,
    0,
    -1,
    2n ** 70n,
    new JsonFloat(Number.NaN),
    new JsonFloat(1.5),
    "",
    "#W1042",
    "\ud800",
    "x".repeat(10_000),
    [],
    ["1", "1"],
    [[]],
    new Map<string, JsonValue>([["toString", null]]),
  ]);
}

function throwsRangeError(action: () => unknown): boolean {
  try {
    action();
    return false;
  } catch (error) {
    return error instanceof RangeError;
  }
}
