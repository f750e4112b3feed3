// Tools that always fail. A tool that throws is answered with an error that the policy reads, so an
// error in its code shows only in rewards. Each tool is called with values that its schema allows,
// and with names from the task and from the results of other calls, until it succeeds once. This is
// not a proof: a tool that needs a rare combination of values may refuse every call.

import type { Environment, EnvironmentCall, EnvironmentSource, Task } from "../core/environment.ts";
import { messageOf } from "../core/failure.ts";
import { createRandom, deriveSeed, type Random } from "../lib/random.ts";
import { openInTime, spacedTasks } from "./environment-conformance.ts";
import type { EnvironmentExamination, EnvironmentFinding } from "./environment-finding.ts";
import { callOf, idsIn, inTime } from "./environment-play.ts";

const check = "failing tools";
/** Maximum number of tools with a finding each; the others are only named. */
const mostNamed = 5;
/** Calls in a task, as a multiple of those that examine the contract: ids are found by calling. */
const patience = 4;
/** Time after which no further call begins: a slow world is tried less. */
const mostMs = 3_000;

/** Calls of a tool. More than one distinct error means that the tool looked at its arguments. */
type Attempts = { made: number; succeeded: boolean; readonly errors: Set<string> };

/** Phrases of a tool whose arguments name nothing that exists. */
const refusal =
  /\b(?:no such|there (?:is|are) no|no \w+ (?:with|of|named|called)|not (?:found|exist|known|valid|allowed)|unknown|invalid|missing|required|must|does not|do not)\b/i;

/** Messages of engines and systems about incorrect code, independent of its arguments. */
const mistake =
  /Cannot (?:read|set|destructure|convert|access) |is not (?:a function|a constructor|defined|iterable|an object)|Assignment to constant|\bE[A-Z]{4,}\b|fetch failed|\b(?:Attribute|Key|Name|Type|Import|ModuleNotFound|NotImplemented|Connection)Error\b/;

/**
 * A warning for each tool that answered every call with an error of its code, or with the same
 * error that is not about the arguments. A last finding always lists the tools that succeeded.
 */
export async function failingTools(
  source: EnvironmentSource,
  options: EnvironmentExamination,
): Promise<readonly EnvironmentFinding[]> {
  const random = createRandom(deriveSeed(options.seed ?? 1, check));
  const attempts = new Map<string, Attempts>();
  const endsAt = performance.now() + mostMs;
  try {
    for (const task of source.splits.flatMap((split) => spacedTasks(source, split, options.tasks))) {
      const trial = {
        ...options,
        random,
        attempts,
        isOver: () => options.signal?.aborted === true || performance.now() > endsAt,
      };
      if (!trial.isOver()) await tryTools(source, task, trial);
    }
  } catch (error) {
    return [
      { check, result: "fault", text: `Tools cannot be tried: ${messageOf(error)}`, remedy: "answer every call" },
    ];
  }
  return findingsOf(attempts);
}

type Trial = EnvironmentExamination & {
  readonly random: Random;
  readonly attempts: Map<string, Attempts>;
  readonly isOver: () => boolean;
};

/** One episode of calls; another one begins when a call ends it. */
async function tryTools(source: EnvironmentSource, task: Task, trial: Trial): Promise<void> {
  const { calls = 40, timeoutMs = 60_000, openTimeoutMs = timeoutMs, attempts, isOver } = trial;
  const known = new Known(task);
  const isDone = (): boolean => isOver() || (attempts.size > 0 && [...attempts.values()].every((one) => one.succeeded));
  for (let left = calls * patience; left > 0 && !isDone();) {
    const world = await openInTime(source, task, openTimeoutMs);
    try {
      if (world.tools.length === 0) return;
      for (const { name } of world.tools) {
        if (!attempts.has(name)) attempts.set(name, { made: 0, succeeded: false, errors: new Set() });
      }
      for (let isEnded = false; left > 0 && !isEnded && !isDone(); left--) {
        const call = nextCall(world, known, trial);
        if (trial.isAllowed?.(world, call) === false) continue;
        const result = await inTime(`a call of "${call.name}"`, timeoutMs, (ending) =>
          world.call(call, { signal: ending }),
        );
        isEnded = result.endsEpisode;
        const tried = attempts.get(call.name)!;
        tried.made++;
        if (!result.isError) {
          tried.succeeded = true;
          known.read(result.text);
        } else if (tried.errors.size < 2) tried.errors.add(result.text);
      }
    } finally {
      await inTime("closing", timeoutMs, () => world.close?.()).catch(() => undefined);
    }
  }
}

/** The next call, mostly of a tool that has not succeeded; the others provide names. */
function nextCall({ tools }: Environment, known: Known, { random, attempts }: Trial): EnvironmentCall {
  const open = tools.filter(({ name }) => attempts.get(name)?.succeeded === false);
  const tool = random.pick(open.length > 0 && random.integer(4) > 0 ? open : tools);
  return callOf(tool, {
    pick: (values) => random.pick(values),
    text: (name) => known.pick(name, random),
    number: () => random.integer(5),
  });
}

/** Names and numbers seen so far; those of a field under the field's name. */
class Known {
  readonly #all = new Set<string>();
  readonly #named = new Map<string, Set<string>>();

  constructor({ instruction, agenda }: Task) {
    for (const text of textsIn([instruction, agenda])) {
      this.#add(this.#all, text);
      this.read(text);
    }
  }

  /** Collects the names in a text: words with digits, quoted words, values of fields. */
  read(text: string): void {
    const start = text.slice(0, 20_000);
    for (const id of idsIn(start)) this.#add(this.#all, id);
    for (const [, quoted = ""] of start.matchAll(/"([^"\\]+)"/g)) this.#add(this.#all, quoted);
    for (const [, field = "", value = ""] of start.matchAll(/"([^"\\]+)": ?"([^"\\]+)"/g)) {
      const values = this.#named.get(field) ?? new Set();
      this.#named.set(field, values);
      this.#add(values, value);
    }
  }

  pick(field: string, random: Random): string {
    const named = [...(this.#named.get(field) ?? [])];
    if (named.length > 0 && random.integer(2) === 0) return random.pick(named);
    return random.pick([...this.#all, "1", "a"]);
  }

  #add(values: Set<string>, value: string): void {
    if (values.size < 200 && value.length <= 40) values.add(value);
  }
}

/** The strings of plain data at any depth. */
function textsIn(value: unknown): string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(textsIn) : [];
}

function findingsOf(attempts: ReadonlyMap<string, Attempts>): readonly EnvironmentFinding[] {
  const failing = [...attempts].filter(([, { made, succeeded }]) => made > 0 && !succeeded);
  const isBroken = (errors: readonly string[]): boolean =>
    errors.every((one) => mistake.test(one)) || (errors.length === 1 && !refusal.test(errors[0]!));
  const broken = failing.filter(([, { errors }]) => isBroken([...errors]));
  const warning = (text: string): EnvironmentFinding => {
    const remedy = "correct its code, unless it needs what neither the task nor other tools name";
    return { check, result: "warning", text, remedy };
  };
  const found = broken.slice(0, mostNamed).map(([name, { made, errors }]) => {
    const [error = ""] = errors;
    const shown = JSON.stringify(error.length > 200 ? `${error.slice(0, 200)}…` : error);
    return warning(
      `${made === 1 ? "The one call" : `Every one of ${made} calls`} of "${name}" was answered by ${shown}.`,
    );
  });
  const others = broken.slice(mostNamed).map(([name]) => `"${name}"`);
  if (others.length > 0)
    found.push(warning(`The same holds for ${others.join(", ")}, each with an answer of its own.`));
  const refusing = failing.filter((one) => !broken.includes(one)).map(([name]) => `"${name}"`);
  const count = attempts.size - failing.length;
  const rest = refusing.length === 0 ? "" : `; what was tried did not suit ${refusing.join(", ")}`;
  return [
    ...found,
    { check, result: "ok", text: `${count} of ${attempts.size} tools succeeded${rest}.`, remedy: null },
  ];
}
