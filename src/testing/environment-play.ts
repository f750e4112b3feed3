// Calls without a model: random and hostile ones, generated from the schemas of tools, and constant
// ones. It also runs an episode with such calls, each step with a deadline; the output is text, so
// that two runs can be compared.

import type { Environment, EnvironmentCall, Grade, Task } from "../core/environment.ts";
import { type Tool, toolParameters } from "../core/message.ts";
import { DeadlineError, withDeadline } from "../lib/deadline.ts";
import type { Random } from "../lib/random.ts";
import { dumpJson } from "../python-semantics/json/dump-json.ts";
import { JsonFloat, type JsonObject, type JsonValue } from "../python-semantics/json/value.ts";

export type Step = EnvironmentCall | { readonly utterance: string };

/** A step exceeded its time limit. */
export class LateError extends Error {}

/** `what` completes "took longer than 5 s"; the signal aborts when the time limit is reached. */
export async function inTime<T>(
  what: string,
  timeoutMs: number,
  action: (signal: AbortSignal) => T | Promise<T>,
): Promise<T> {
  try {
    return await withDeadline(async (signal) => action(signal), { timeoutMs });
  } catch (error) {
    if (!(error instanceof DeadlineError)) throw error;
    throw new LateError(`${what} took longer than ${timeoutMs / 1000} s`, { cause: error });
  }
}

export type ShownSteps = {
  /** Output of each step, then the grades and the digest. */
  readonly shown: readonly string[];
  /** Index of the step that ended the episode; `null` if none did. */
  readonly endedAt: number | null;
};

/**
 * Takes the steps until one ends the episode. Rejects with the error of a call, and with a
 * `LateError`.
 */
export async function* playing(
  environment: Environment,
  { steps, timeoutMs }: { readonly steps: readonly Step[]; readonly timeoutMs: number },
): AsyncGenerator<string, number | null> {
  for (const [index, step] of steps.entries()) {
    if ("utterance" in step) {
      const heard = await inTime("hearing an utterance", timeoutMs, (signal) =>
        environment.receiveUtterance(step.utterance, { signal }),
      );
      const ends = heard?.endsEpisode === true;
      yield `said ${JSON.stringify(step.utterance)} ${ends}`;
      if (ends) return index;
      continue;
    }
    const result = await inTime(`a call of "${step.name}"`, timeoutMs, (signal) => environment.call(step, { signal }));
    const { text, isError, endsEpisode, info, reward = null } = result;
    if (reward !== null && !Number.isFinite(reward)) {
      throw new TypeError(`the reward of a call of "${step.name}" is ${String(reward)}, not a finite number`);
    }
    yield `${callText(step)} → ${text} ${isError} ${endsEpisode} ${reward} ${dumpJson(info)}`;
    if (endsEpisode) return index;
  }
  return null;
}

export function callText({ name, arguments: args }: EnvironmentCall): string {
  return `${name}(${dumpJson(args)})`;
}

export function gradeText({ reward, metrics, log, info, turnRewards = null }: Grade): string {
  return `${reward} ${JSON.stringify(metrics)} ${log} ${dumpJson(info)} ${JSON.stringify(turnRewards)}`;
}

/**
 * Hostile calls and, equally often, calls that the schemas allow, with the numbers and names in the
 * task.
 */
export function randomSteps(
  { tools, task }: Pick<Environment, "tools" | "task">,
  { random, count }: { readonly random: Random; readonly count: number },
): Step[] {
  const known = namesIn(task);
  return Array.from({ length: count }, () => randomStep(tools, { random, known }));
}

/** Words of the task that look like ids or numbers. */
function namesIn(task: Task): readonly string[] {
  return idsIn(JSON.stringify([task.instruction, task.agenda])).slice(0, 50);
}

/** Words of a text that contain a digit. */
export function idsIn(text: string): string[] {
  return [...new Set(text.match(/#?[\p{L}\p{N}_-]+/gu))].filter((word) => /\p{N}/u.test(word));
}

type Choices = { readonly random: Random; readonly known: readonly string[] };

function randomStep(tools: readonly Tool[], { random, known }: Choices): Step {
  if (random.integer(8) === 0)
    return { utterance: random.pick(["", "Your order is on its way.", "\ud83d\ude80 \ud800"]) };
  if (tools.length === 0 || random.integer(10) === 0) return { name: "no_such_tool", arguments: new Map() };
  const tool = random.pick(tools);
  if (random.integer(2) === 0) {
    const text = (): string => random.pick([...known, "1", "a"]);
    return callOf(tool, { pick: (values) => random.pick(values), text, number: () => random.integer(5) });
  }
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

/**
 * Calls of a policy that knows only the tool: one with the first values that the schema allows, and
 * one with the last.
 */
export function constantCalls(tool: Tool): readonly EnvironmentCall[] {
  const first = callOf(tool, { pick: (values) => values[0]!, text: () => "1", number: () => 1 });
  const last = callOf(tool, { pick: (values) => values.at(-1)!, text: () => "", number: () => 0 });
  return callText(first) === callText(last) ? [first] : [first, last];
}

/** Chooses among the values that a schema allows. */
type Chooser = {
  readonly pick: <T>(values: readonly T[]) => T;
  /** `field`: name of the property for the text; "" if it has none. */
  readonly text: (field: string) => string;
  readonly number: () => number;
};

/** A call with every argument that the schema names. */
export function callOf(tool: Tool, chooser: Chooser): EnvironmentCall {
  const value = valueFor(toolParameters(tool), chooser);
  return { name: tool.name, arguments: value instanceof Map ? value : new Map() };
}

const deepest = 6;

/** A value that the schema most likely allows; rarer keywords of the schema are ignored. */
function valueFor(
  schema: JsonValue | undefined,
  chooser: Chooser,
  { depth, field }: { readonly depth: number; readonly field: string } = { depth: 0, field: "" },
): JsonValue {
  const below = { depth: depth + 1, field };
  if (!(schema instanceof Map) || depth > deepest) return depth === 0 ? new Map() : chooser.text(field);
  if (schema.has("const")) return schema.get("const")!;
  const fixed = schema.get("enum");
  if (Array.isArray(fixed) && fixed.length > 0) return chooser.pick(fixed);
  const branches = schema.get("anyOf") ?? schema.get("oneOf");
  if (Array.isArray(branches) && branches.length > 0) return valueFor(chooser.pick(branches), chooser, below);
  const given = schema.get("type");
  const type = Array.isArray(given) ? given[0] : given;
  switch (type ?? (schema.has("properties") || depth === 0 ? "object" : "string")) {
    case "object": {
      const properties = schema.get("properties");
      const entries = properties instanceof Map ? [...properties] : [];
      return new Map(entries.map(([name, part]) => [name, valueFor(part, chooser, { ...below, field: name })]));
    }
    case "array":
      return [valueFor(schema.get("items"), chooser, below)];
    case "boolean":
      return chooser.pick([true, false]);
    case "integer":
    case "number": {
      const least = schema.get("minimum");
      return typeof least === "number" ? Math.max(least, chooser.number()) : chooser.number();
    }
    case "null":
      return null;
    default:
      return chooser.text(field);
  }
}
