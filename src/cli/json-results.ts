// Output of `--json` that differs from the result of the public function: without functions, with
// maps as objects, and episodes as a few numbers. docs/start.md lists the type of each command's
// JSON.

import type { EvaluateResult } from "../api/evaluate.ts";
import type { RolloutResult } from "../api/rollout.ts";
import type { Agreement, Evaluation } from "../graders/index.ts";
import type { Comparison } from "../statistics/index.ts";
import type { EpisodeSummary } from "../store/index.ts";

/** JSON of `rollout`. */
export type RolloutJson = Omit<RolloutResult, "redact">;

export function rolloutJson(result: RolloutResult): RolloutJson {
  const { folder, status, totals, environment, split, isResumable } = result;
  return { folder, status, totals, environment, split, isResumable };
}

/**
 * JSON of `start`, with the numbers of the two episodes that are shown. `null` if none passed, or
 * none failed.
 */
export type StartJson = RolloutJson & { readonly passing: number | null; readonly failing: number | null };

/**
 * JSON of `eval`: results.json, with its source, the rewards that the environment confirms and the
 * agreement with labels.
 */
export type EvaluationJson = Evaluation &
  Pick<EvaluateResult, "source" | "title" | "scores" | "rescored" | "domains"> & {
    readonly format: 1;
    readonly agreement: Readonly<Record<string, readonly Agreement[]>>;
    readonly rollout: RolloutJson | null;
    /** One result for each source, if several were named. */
    readonly parts: readonly EvaluationJson[];
    /** Results of several adapters, and their comparison. */
    readonly adapters?: readonly { readonly adapter: string; readonly result: EvaluationJson }[];
    readonly comparison?: Comparison;
  };

export function evaluationJson(result: EvaluateResult): EvaluationJson {
  const { source, title, evaluation, scores, rescored, agreement, rollout, domains, parts } = result;
  const { adapters, comparison } = result;
  return {
    format: 1,
    source,
    title,
    ...evaluation,
    scores,
    rescored,
    domains,
    parts: parts.map(evaluationJson),
    agreement: Object.fromEntries(agreement),
    rollout: rollout === null ? null : rolloutJson(rollout),
    ...(adapters === undefined
      ? {}
      : { adapters: adapters.map((one) => ({ ...one, result: evaluationJson(one.result) })) }),
    ...(comparison === undefined ? {} : { comparison }),
  };
}

/** JSON of `inspect <run>`: a line of its table. */
export type EpisodeRow = {
  /** Number that `inspect <run> <number>` takes. */
  readonly number: number;
  readonly id: string;
  readonly taskId: string;
  readonly reward: number | null;
  readonly outcome: string;
  readonly stopReason: string;
  readonly turns: number;
  readonly tokens: number;
  readonly sampledTokens: number;
  /** Counts by code. */
  readonly problems: Readonly<Record<string, number>>;
};

export function episodeRow(episode: EpisodeSummary): EpisodeRow {
  const { number, id, task, reward, outcome, stopReason, ending, failure } = episode;
  const { turns, observedTokens, sampledTokens, problems } = episode;
  return {
    number,
    id,
    taskId: task.id,
    reward,
    outcome,
    stopReason: failure === null ? (ending ?? stopReason) : `${failure.boundary}/${failure.code}`,
    turns,
    tokens: observedTokens + sampledTokens,
    sampledTokens,
    problems,
  };
}
