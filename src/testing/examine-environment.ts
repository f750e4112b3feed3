// Effects of an environment on a run, measured by running it without a model: whether it keeps its
// contract, the reward of a policy that does the same everywhere, the duration of steps, the share
// of the context that a result fills, whether a call ends after its caller has given up.
// `trainable-agents doctor environment` runs it. Not a benchmark: one process, few tasks.

import type { Environment, EnvironmentCall, EnvironmentSource, Task } from "../core/environment.ts";
import { contractChecks, contractViolations, type ContractCheck, openInTime } from "./environment-conformance.ts";
import { messageOf } from "../core/failure.ts";
import { constantPolicies, round } from "./constant-policies.ts";
import type { EnvironmentFinding, EnvironmentExamination } from "./environment-finding.ts";
import { inTime, LateError } from "./environment-play.ts";
import { failingTools } from "./failing-tools.ts";

/** Duration from which a call is also tried with a signal that aborts. */
const noticedMs = 200;
/** Duration from which a run waits for the environment rather than for the model. */
const slowMs = 1_000;
/** Characters of a long tool result, about 5,000 tokens. */
const longResult = 20_000;

/**
 * Runs tasks of every split and resolves with findings, which include faults of the environment;
 * never rejects because of them.
 *
 * @example
 * const findings = await examineEnvironment(bookshopSource(), { tasks: 2 });
 * console.log(findings.filter(({ result }) => result !== "ok"));
 */
export async function examineEnvironment(
  source: EnvironmentSource,
  options: EnvironmentExamination = {},
): Promise<readonly EnvironmentFinding[]> {
  const findings: EnvironmentFinding[] = [];
  const add = (finding: EnvironmentFinding): void => {
    findings.push(finding);
    options.onFinding?.(finding);
  };
  const { source: observed, seen } = observe(source);
  const violations = await contractViolations(observed, options);
  for (const check of contractChecks) {
    const found = violations.filter((violation) => violation.check === check);
    // The same fault in several tasks is one fault.
    for (const { text, remedy } of found.slice(0, 3)) add({ check, result: "fault", text: sentence(text), remedy });
    if (found.length > 3) add({ check, result: "fault", text: `${found.length - 3} more like these.`, remedy: null });
    if (found.length === 0)
      add({
        check,
        result: "ok",
        text: kept(check, { source, seen, isShielded: options.isAllowed !== undefined }),
        remedy: null,
      });
  }
  const canPlay = violations.every(({ check }) => !["opening", "deadlines", "calls", "grading"].includes(check));
  const goesOn = (): boolean => canPlay && options.signal?.aborted !== true;
  if (goesOn()) add(await constantPolicies(observed, options));
  if (goesOn()) for (const finding of await failingTools(observed, options)) add(finding);
  if (goesOn())
    add(
      await abortedCall(source, {
        slowest: seen.slowest,
        timeoutMs: options.openTimeoutMs ?? options.timeoutMs ?? 60_000,
      }),
    );
  add(times(seen));
  add(sizes(seen));
  return findings;
}

/** Text of a finding without a violation. */
function kept(
  check: ContractCheck,
  {
    source,
    seen,
    isShielded,
  }: { readonly source: EnvironmentSource; readonly seen: Seen; readonly isShielded: boolean },
): string {
  const restarts = source.resume === "restart";
  switch (check) {
    case "tasks":
      return `${source.splits.map((split) => `${split} ${source.taskset(split).size}`).join(", ")}; the same task twice is the same.`;
    case "opening":
      return `${seen.openMs.length} episodes opened.`;
    case "tools":
      return `Names are unique: ${[...seen.tools].join(", ") || "there are none"}.`;
    case "calls":
      return `${seen.callMs.length} calls${isShielded ? "" : ", hostile ones among them"}, and each was answered.`;
    case "deadlines":
      return "Each step ended in time.";
    case "grading":
      return "Grades are finite, and grading twice gives the same.";
    case "determinism":
      return restarts
        ? 'Not examined: it says resume: "restart", so a killed episode begins again.'
        : "The same calls under the same seed gave the same results, rewards and digests.";
    case "isolation":
      return restarts
        ? "Not examined: results of two plays cannot be compared."
        : "An episode is the same while another of its task runs, and an untouched one stays as it is.";
    case "closing":
      return `${seen.closed} of ${seen.openMs.length} episodes closed, each once.`;
    default:
      return check satisfies never;
  }
}

type Seen = {
  readonly openMs: number[];
  readonly callMs: number[];
  readonly closeMs: number[];
  readonly gradeMs: number[];
  readonly tools: Set<string>;
  closed: number;
  longest: { readonly tool: string; readonly characters: number } | null;
  slowest: { readonly task: Task; readonly call: EnvironmentCall; readonly ms: number } | null;
};

/** The source, and the observations of its episodes. */
function observe(source: EnvironmentSource): { readonly source: EnvironmentSource; readonly seen: Seen } {
  const seen: Seen = {
    openMs: [],
    callMs: [],
    closeMs: [],
    gradeMs: [],
    tools: new Set<string>(),
    closed: 0,
    longest: null,
    slowest: null,
  };
  const timed = async <T>(all: number[], action: () => T | Promise<T>): Promise<T> => {
    const start = performance.now();
    const value = await action();
    all.push(performance.now() - start);
    return value;
  };
  const wrapped = (world: Environment): Environment => {
    for (const { name } of world.tools) seen.tools.add(name);
    return {
      task: world.task,
      guidelines: world.guidelines,
      tools: world.tools,
      info: world.info,
      opening: world.opening ?? null,
      history: world.history ?? [],
      userSide: world.userSide ?? null,
      receiveUtterance: (...given) => world.receiveUtterance(...given),
      digest: () => world.digest(),
      call: async (call, options) => {
        const result = await timed(seen.callMs, () => world.call(call, options));
        const ms = seen.callMs.at(-1)!;
        if (ms > (seen.slowest?.ms ?? 0)) seen.slowest = { task: world.task, call, ms };
        const characters = result.text.length;
        // A refusal repeats the hostile argument, so its length is not counted.
        if (!result.isError && characters > (seen.longest?.characters ?? -1))
          seen.longest = { tool: call.name, characters };
        return result;
      },
      grade: (...given) => timed(seen.gradeMs, () => world.grade(...given)),
      close: async () => {
        await timed(seen.closeMs, () => world.close?.());
        seen.closed++;
      },
    };
  };
  const open: EnvironmentSource["open"] = async (...given) =>
    wrapped(await timed(seen.openMs, () => source.open(...given)));
  // The methods of a source may be in a class, so they are not spread.
  const observed: EnvironmentSource = {
    name: source.name,
    splits: source.splits,
    users: source.users,
    argumentErrors: source.argumentErrors,
    ...(source.unknownTools === undefined ? {} : { unknownTools: source.unknownTools }),
    ...(source.resume === undefined ? {} : { resume: source.resume }),
    ...(source.graders === undefined ? {} : { graders: source.graders }),
    taskset: (split) => source.taskset(split),
    open,
  };
  return { source: observed, seen };
}

/** A call whose caller has given up should end. */
async function abortedCall(
  source: EnvironmentSource,
  { slowest, timeoutMs }: { readonly slowest: Seen["slowest"]; readonly timeoutMs: number },
): Promise<EnvironmentFinding> {
  const check = "cancelled calls";
  if (slowest === null || slowest.ms < noticedMs) {
    const text = `Not examined: the longest call took ${round(slowest?.ms ?? 0)} ms, which need not be cancelled.`;
    return { check, result: "ok", text, remedy: null };
  }
  const { task, call } = slowest;
  const timed = async (abortAfterMs: number | null): Promise<number> => {
    const controller = new AbortController();
    const world = await openInTime(source, task, timeoutMs);
    const timer =
      abortAfterMs === null
        ? null
        : setTimeout(() => controller.abort(new Error("Nobody waits for the answer.")), abortAfterMs);
    try {
      const start = performance.now();
      await inTime("the call", timeoutMs, () => world.call(call, { signal: controller.signal })).catch(
        (error: unknown) => {
          // The call may end in any way; only its duration counts.
          if (error instanceof LateError) throw error;
        },
      );
      return performance.now() - start;
    } finally {
      if (timer !== null) clearTimeout(timer);
      await inTime("closing", timeoutMs, () => world.close?.()).catch(() => undefined);
    }
  };
  let ms: number;
  let took: number | null = null;
  try {
    // The first such call may have been slow for another reason.
    ms = await timed(null);
    if (ms < noticedMs) {
      const text = `Not examined: the longest call, of "${call.name}", took ${round(ms)} ms when it was made again.`;
      return { check, result: "ok", text, remedy: null };
    }
    took = await timed(20);
  } catch (error) {
    if (!(error instanceof LateError))
      return { check, result: "fault", text: sentence(messageOf(error)), remedy: null };
    ms = timeoutMs;
  }
  if (took !== null && took < ms / 2 + 20) {
    const text = `A call of "${call.name}" that takes ${round(ms)} ms ended ${round(took)} ms after it began when it was cancelled.`;
    return { check, result: "ok", text, remedy: null };
  }
  const text = `A call of "${call.name}" takes ${round(ms)} ms and continues when it is cancelled, so an ended episode keeps its work.`;
  return { check, result: "warning", text, remedy: "hand the signal of the call on, as in fetch(url, { signal })" };
}

function times(seen: Seen): EnvironmentFinding {
  const typical = (values: readonly number[]): string =>
    values.length === 0 ? "none" : `${round(median(values))} ms (at most ${round(Math.max(...values))})`;
  const { openMs, callMs, closeMs, gradeMs } = seen;
  const text = `Median of a call ${typical(callMs)}, open ${typical(openMs)}, grade ${typical(gradeMs)}, close ${typical(closeMs)}.`;
  return callMs.length > 0 && median(callMs) > slowMs
    ? { check: "time", result: "warning", text, remedy: "raise --concurrency, so that other episodes sample meanwhile" }
    : { check: "time", result: "ok", text, remedy: null };
}

function sizes({ longest }: Seen): EnvironmentFinding {
  const check = "result size";
  if (longest === null) return { check, result: "ok", text: "No call succeeded.", remedy: null };
  const text = `The longest result has ${longest.characters} characters, of "${longest.tool}".`;
  return longest.characters > longResult
    ? { check, result: "warning", text, remedy: "return less, or lower --max-result-characters; it fills the context" }
    : { check, result: "ok", text, remedy: null };
}

function median(values: readonly number[]): number {
  return values.toSorted((left, right) => left - right)[Math.floor(values.length / 2)] ?? 0;
}

/** Makes a sentence of a violation, which is written to follow the environment's name. */
function sentence(text: string): string {
  const whole = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(whole) ? whole : `${whole}.`;
}
