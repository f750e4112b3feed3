// The curves of a run as points for plotting tools (TensorBoard, W&B, MLflow, trackio): for a
// rollout, statistics over every few ended episodes; for a training, its steps. Sinks deliver the
// points asynchronously, and a failing sink never affects the run.

import { type EpisodeEvent, outcomeOf } from "../core/index.ts";
import { factsOf, isDone, observing, type RunObserver } from "./observer.ts";

export type CurveOptions = {
  /** Number of ended episodes per point of each curve. Default: 16. */
  readonly everyEpisodes?: number;
  /** Milliseconds since 1970. Default: `Date.now`. */
  readonly now?: () => number;
};

/** Options of every function that creates a sink. */
export type CurveSinkOptions = Pick<CurveOptions, "now"> & {
  /**
   * Called once, with the reason, when points cannot be written any more; for a server that is
   * down, at each change.
   */
  readonly onFault?: (message: string) => void;
};

export type CurvePoint = {
  /**
   * Number of ended episodes of the run, earlier processes included, or of training steps; grows
   * from point to point.
   */
  readonly step: number;
  /** Milliseconds since 1970. */
  readonly time: number;
  /**
   * Curves without any episode, turn or token to count are omitted, because absent differs from
   * zero.
   */
  readonly scalars: readonly (readonly [name: string, value: number])[];
};

/**
 * Receives points in order. Calls are synchronous and never throw; `close` resolves when all points
 * are delivered or given up.
 */
export interface CurveSink {
  write(point: CurvePoint): void;
  close(): Promise<void>;
}

/** The facts of a run that sinks show next to its curves. */
export type CurveRun = {
  readonly id: string;
  readonly name: string;
  /** Settings without secrets. */
  readonly configuration: Readonly<Record<string, unknown>>;
};

/**
 * An observer of a rollout that creates points for a sink, and closes it. Throws a `RangeError` for
 * invalid options.
 */
export function observeCurves(sink: CurveSink, { everyEpisodes = 16, now = Date.now }: CurveOptions = {}): RunObserver {
  if (!Number.isInteger(everyEpisodes) || everyEpisodes < 1) {
    throw new RangeError(
      `Cannot write curves: everyEpisodes is ${everyEpisodes}, expected a whole number of at least 1.`,
    );
  }
  let sums = { ...nothing };
  let since = now();
  let ended = 0;
  const groups = { kept: 0, dropped: 0 };

  function write(): void {
    const time = now();
    const counted = { ...sums, seconds: (time - since) / 1000 };
    sums = { ...nothing };
    since = time;
    const shown = curves.filter(([, , whole]) => counted[whole] > 0);
    const scalars: [string, number][] = shown.map(([tag, part, whole]) => [tag, counted[part] / counted[whole]]);
    scalars.push(["groups/kept", groups.kept], ["groups/dropped", groups.dropped]);
    sink.write({ step: ended, time, scalars });
  }

  return observing({
    event(_episodeId, event) {
      count(sums, event);
      if (event.type !== "episode-end") return;
      ended += 1;
      if (sums.episodes >= everyEpisodes) write();
    },
    recorded(_episodeId, event) {
      // Curves continue after the episodes that an earlier process ended.
      if (isDone(event)) ended += 1;
    },
    group: ({ decision }) => void (groups[decision] += 1),
    async close() {
      if (sums.episodes > 0) write();
      await sink.close();
    },
  });
}

/** Counts since the last point, so that a curve shows recent values. */
const nothing = {
  episodes: 0,
  graded: 0,
  reward: 0,
  passed: 0,
  failed: 0,
  truncated: 0,
  turns: 0,
  sampledTokens: 0,
  promptTokens: 0,
  cachedTokens: 0,
  problems: 0,
  retries: 0,
  engineMs: 0,
  userMs: 0,
};

type Counted = keyof typeof nothing | "seconds";

/** Definition of each curve: the first count divided by the second. */
const curves: readonly (readonly [name: string, part: Counted, whole: Counted])[] = [
  ["reward/mean", "reward", "graded"],
  ["reward/pass_rate", "passed", "graded"],
  ["episodes/failed", "failed", "episodes"],
  ["episodes/truncated", "truncated", "episodes"],
  ["episodes/turns", "turns", "episodes"],
  ["episodes/sampled_tokens", "sampledTokens", "episodes"],
  ["actions/problems_per_turn", "problems", "turns"],
  ["engine/retries_per_turn", "retries", "turns"],
  ["engine/cached_prompt_tokens", "cachedTokens", "promptTokens"],
  ["time/engine_ms_per_turn", "engineMs", "turns"],
  ["time/user_ms_per_turn", "userMs", "turns"],
  ["speed/turns_per_second", "turns", "seconds"],
  ["speed/sampled_tokens_per_second", "sampledTokens", "seconds"],
];

/** Adds the counts of an event to the sums. */
function count(sums: Record<keyof typeof nothing, number>, event: EpisodeEvent): void {
  const { phase = null, durationMs = 0, attempts = [], tokens = null } = factsOf(event) ?? {};
  if (phase === "user") sums.userMs += durationMs;
  if (tokens !== null) {
    sums.turns += 1;
    sums.engineMs += durationMs;
    sums.retries += attempts.length;
    sums.sampledTokens += tokens.sampled;
    sums.promptTokens += tokens.prompt;
    sums.cachedTokens += tokens.cached ?? 0;
  }
  if (event.type === "decision") sums.problems += event.decision.problems.length;
  if (event.type === "grade") {
    sums.graded += 1;
    sums.reward += event.grade.reward;
    sums.passed += event.grade.reward === 1 ? 1 : 0;
  }
  if (event.type === "episode-end") {
    const outcome = outcomeOf(event.stopReason);
    sums.episodes += 1;
    sums.failed += outcome === "failed" ? 1 : 0;
    sums.truncated += outcome === "truncated" ? 1 : 0;
  }
}
