// The contract of environments, as checks without a test runner: run them in your own tests, or
// print their findings. Seeded and bounded. They prove the contract, not that the domain makes
// sense: `examine-environment.ts` measures the rewards.

import type { Environment, EnvironmentCall, EnvironmentSource, Task } from "../core/environment.ts";
import { AttributedError, messageOf } from "../core/failure.ts";
import { createRandom, deriveSeed } from "../lib/random.ts";
import { gradeText, inTime, LateError, type ShownSteps, playing, randomSteps, type Step } from "./environment-play.ts";

export type EnvironmentConformanceOptions = {
  /** Number of tasks tried in each split. Default: 5. */
  readonly tasks?: number;
  /** Number of calls made in each task. Default: 40. */
  readonly calls?: number;
  /** Seed of the calls. Default: 1. */
  readonly seed?: number;
  /** Time limit of each asynchronous step. Default: 60,000. */
  readonly timeoutMs?: number;
  /** Time limit for opening an episode. Default: `timeoutMs`. */
  readonly openTimeoutMs?: number;
  /**
   * Returns false for calls that are not to be made, in worlds that the loop shields from them.
   * Default: all calls are made.
   */
  readonly isAllowed?: (environment: Environment, call: EnvironmentCall) => boolean;
};

/** Parts of the contract, in the order in which they are examined. */
export const contractChecks = [
  "tasks",
  "opening",
  "tools",
  "calls",
  "deadlines",
  "grading",
  "determinism",
  "isolation",
  "closing",
] as const;

export type ContractCheck = (typeof contractChecks)[number];

/** The violation as a sentence, and its remedy as part of a sentence. */
export type ContractViolation = { readonly check: ContractCheck; readonly text: string; readonly remedy: string };

/** Violations, one sentence each; empty when the contract holds. */
export async function environmentViolations(
  source: EnvironmentSource,
  options: EnvironmentConformanceOptions = {},
): Promise<string[]> {
  const violations = await contractViolations(source, options);
  return violations.map(({ text }) => `Environment "${source.name}": ${text}`);
}

type Report = (check: ContractCheck, text: string, remedy: string) => void;

/** Same as {@link environmentViolations}, with the check that each violation belongs to. */
export async function contractViolations(
  source: EnvironmentSource,
  options: EnvironmentConformanceOptions & { readonly signal?: AbortSignal },
): Promise<readonly ContractViolation[]> {
  const { calls = 40, seed = 1, timeoutMs = 60_000, isAllowed = () => true, signal } = options;
  const { openTimeoutMs = timeoutMs } = options;
  const violations: ContractViolation[] = [];
  // Each run of a task reports the same violations, so repeated ones are ignored.
  const report: Report = (check, text, remedy) => {
    if (!violations.some((known) => known.text === text)) violations.push({ check, text, remedy });
  };
  if (source.splits.length === 0) report("tasks", "it has no splits.", "name one in tasks");
  if (source.users.length === 0)
    report("tasks", "no user simulator supports it.", "add an agenda or an instruction to its tasks");
  const ids = new Set<string>();
  for (const split of source.splits) {
    const taskset = source.taskset(split);
    if (taskset.size < 1) report("tasks", `split "${split}" has no task.`, "add one, or remove the split");
    if (!throwsRangeError(() => taskset.task(taskset.size))) {
      report("tasks", `split "${split}" does not refuse a task past its end.`, "throw a RangeError");
    }
    for (const task of spacedTasks(source, split, options.tasks)) {
      if (signal?.aborted === true) return violations;
      if (ids.has(task.id)) report("tasks", `task id "${task.id}" is used twice.`, "make the ids of tasks unique");
      ids.add(task.id);
      if (source.taskset(split).task(task.index).contentHash !== task.contentHash) {
        report("tasks", `task "${task.id}" differs from itself.`, "make the same task of the same index each time");
      }
      await checkTask(source, task, {
        seed: deriveSeed(seed, task.id),
        calls,
        timeoutMs,
        openTimeoutMs,
        isAllowed,
        report,
      });
    }
  }
  return violations;
}

/** At most this many tasks of a split, evenly spaced. */
export function spacedTasks(source: EnvironmentSource, split: string, most = 5): Task[] {
  const taskset = source.taskset(split);
  const count = Math.min(most, taskset.size);
  return Array.from({ length: count }, (_, nth) => taskset.task(Math.floor((nth * taskset.size) / count)));
}

type Context = Required<Pick<EnvironmentConformanceOptions, "isAllowed" | "openTimeoutMs">> & {
  readonly seed: number;
  readonly calls: number;
  readonly timeoutMs: number;
  readonly report: Report;
};

/** Checks the episodes of a task, and closes all of them at the end. */
async function checkTask(source: EnvironmentSource, task: Task, context: Context): Promise<void> {
  const { timeoutMs, openTimeoutMs, report } = context;
  const opened = new Set<Environment>();
  const open = async (): Promise<Environment> => {
    const environment = await openInTime(source, task, openTimeoutMs).catch((cause: unknown) => {
      throw new OpeningError(messageOf(cause), { cause });
    });
    opened.add(environment);
    return environment;
  };
  const close = async (environment: Environment): Promise<void> => {
    if (!opened.delete(environment)) return;
    try {
      await inTime("closing", timeoutMs, () => environment.close?.());
    } catch (error) {
      const text = `an episode of task "${task.id}" cannot be closed: ${messageOf(error)}`;
      report("closing", text, "let close (or teardown) give back what is there, and throw nothing");
    }
  };
  try {
    await examineTask(task, { ...context, open, close, isReplayed: source.resume !== "restart" });
  } catch (error) {
    const reason = messageOf(error).replace(/\.$/, "");
    if (error instanceof OpeningError) {
      report(
        "opening",
        `task "${task.id}" cannot be opened: ${reason}.`,
        "correct open (or setup), or start what it needs",
      );
    } else if (error instanceof LateError) {
      report("deadlines", `${reason} in task "${task.id}".`, "make it faster, or raise --environment-timeout");
    } else {
      const text = `task "${task.id}" threw on a call: ${String(error)}; a bad call must be an observation.`;
      const isAway = error instanceof AttributedError && error.failure.retryable;
      report("calls", text, isAway ? "see why its service failed" : "answer with a result whose isError is true");
    }
  }
  for (const environment of opened) await close(environment);
}

class OpeningError extends Error {}

/** Opens an episode; one that opens too late is closed when it arrives. */
export async function openInTime(source: EnvironmentSource, task: Task, timeoutMs: number): Promise<Environment> {
  let late: Promise<Environment> | null = null;
  try {
    return await inTime(`opening task "${task.id}"`, timeoutMs, (signal) => {
      late = Promise.resolve(source.open(task, { seed: 1, signal }));
      return late;
    });
  } catch (error) {
    if (error instanceof LateError)
      void (late as Promise<Environment> | null)?.then((one) => one.close?.()).catch(() => undefined);
    throw error;
  }
}

type TaskContext = Context & {
  readonly open: () => Promise<Environment>;
  readonly close: (environment: Environment) => Promise<void>;
  /** True if equal calls must have equal results. */
  readonly isReplayed: boolean;
};

async function examineTask(task: Task, context: TaskContext): Promise<void> {
  const { open, close, isReplayed, isAllowed, report, calls, timeoutMs } = context;
  const random = createRandom(context.seed);
  const untouched = isReplayed ? await open() : null;
  const before = untouched?.digest();
  let environment = await open();
  const names = new Set(environment.tools.map((tool) => tool.name));
  if (names.size !== environment.tools.length)
    report("tools", "two tools have one name.", "name each tool differently");
  const stepsFor = (one: Environment): Step[] =>
    randomSteps(one, { random, count: calls }).filter((step) => "utterance" in step || isAllowed(one, step));
  let steps = stepsFor(environment);
  let first = await play(environment, steps, context);
  // The step that ends the episode is moved to the end, so that the other steps are tried.
  for (let attempt = 0; first.endedAt !== null && first.endedAt < steps.length - 1 && attempt < 8; attempt++) {
    const ending = steps[first.endedAt]!;
    const others = steps.filter((step) => nameOf(step) !== nameOf(ending));
    steps = [...others, ending];
    await close(environment);
    environment = await open();
    first = await play(environment, steps, context);
  }
  await close(environment);
  if (!isReplayed) return;
  environment = await open();
  const second = await play(environment, steps, context);
  await close(environment);
  const remedy = 'derive randomness from the seed of open, use no clock, or say resume: "restart"';
  const difference = differenceOf(first.shown, second.shown);
  if (difference !== null) {
    const text = `replaying the calls of task "${task.id}" gives other results; it is not deterministic${difference}.`;
    report("determinism", text, remedy);
  }
  const share = "keep what an episode changes in its own state, not in the module";
  if (untouched?.digest() !== before)
    report("isolation", `an episode of task "${task.id}" changed the state of another.`, share);
  if (difference !== null) return;
  const [one, other] = [await open(), await open()];
  const otherSteps = stepsFor(one);
  const beside = await playBeside({ one, steps }, { one: other, steps: otherSteps }, timeoutMs);
  const change = differenceOf(first.shown.slice(0, beside.length), beside);
  if (change !== null)
    report("isolation", `an episode of task "${task.id}" behaves differently while another runs${change}.`, share);
}

/** Name of the tool that the step calls; `null` for an utterance. */
function nameOf(step: Step): string | null {
  return "utterance" in step ? null : step.name;
}

/** Everything that an episode shows. Grading must not change the state that it grades. */
async function play(
  environment: Environment,
  steps: readonly Step[],
  { timeoutMs, report }: Pick<Context, "timeoutMs" | "report">,
): Promise<ShownSteps> {
  const shown: string[] = [];
  const episode = playing(environment, { steps, timeoutMs });
  let next = await episode.next();
  for (; next.done !== true; next = await episode.next()) shown.push(next.value);
  const { id } = environment.task;
  try {
    const grades: string[] = [];
    for (const outcome of ["completed", "completed", "truncated"] as const) {
      const grade = await inTime("grading", timeoutMs, (signal) => environment.grade({ outcome }, { signal }));
      const problem = gradeProblem(grade);
      if (problem !== null) report("grading", `the grade of task "${id}" ${problem}.`, "return finite numbers");
      grades.push(`graded ${outcome}: ${gradeText(grade)}`);
    }
    shown.push(...grades);
    if (grades[0] !== grades[1]) {
      report(
        "grading",
        `task "${id}" graded twice has two different grades.`,
        "make grade free of side effects and randomness",
      );
    }
  } catch (error) {
    if (error instanceof LateError) throw error;
    report("grading", `grading task "${id}" threw: ${messageOf(error)}`, "return a number for every state");
  }
  shown.push(`digest ${environment.digest()}`);
  return { shown, endedAt: next.value };
}

function gradeProblem({
  reward,
  metrics,
  turnRewards = null,
}: Awaited<ReturnType<Environment["grade"]>>): string | null {
  if (!Number.isFinite(reward)) return `has the reward ${String(reward)}`;
  const metric = Object.entries(metrics).find(([, value]) => !Number.isFinite(value));
  if (metric !== undefined) return `has the metric ${metric[0]} = ${String(metric[1])}`;
  if (turnRewards === null || turnRewards.length === 0) return null;
  const sum = turnRewards.reduce<number>((total, one) => total + (one ?? 0), 0);
  const size = turnRewards.reduce<number>((total, one) => total + Math.abs(one ?? 0), Math.abs(reward));
  return Math.abs(sum - reward) <= 1e-6 * Math.max(1, size)
    ? null
    : `has turnRewards that sum to ${sum}, and the reward ${reward}`;
}

type Side = { readonly one: Environment; readonly steps: readonly Step[] };

/** Output of the first environment while the second takes a step after each of its steps. */
async function playBeside(first: Side, second: Side, timeoutMs: number): Promise<readonly string[]> {
  const [shown, other] = [first, second].map(({ one, steps }) => playing(one, { steps, timeoutMs }));
  const lines: string[] = [];
  for (let next = await shown!.next(); next.done !== true; next = await shown!.next()) {
    lines.push(next.value);
    await other!.next();
  }
  return lines;
}

/** The first difference, as the end of a sentence; `null` if there is none. */
function differenceOf(first: readonly string[], second: readonly string[]): string | null {
  const at = Array.from({ length: Math.max(first.length, second.length) }).findIndex(
    (_, index) => first[index] !== second[index],
  );
  if (at === -1) return null;
  return `: "${excerpt(first[at])}" and then "${excerpt(second[at])}"`;
}

function excerpt(text = "nothing"): string {
  return text.length > 160 ? `${text.slice(0, 160)}…` : text;
}

function throwsRangeError(action: () => unknown): boolean {
  try {
    action();
    return false;
  } catch (error) {
    return error instanceof RangeError;
  }
}
