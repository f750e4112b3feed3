// What `--json` prints where it is not just what the public function returns: without functions, with maps as objects, and episodes
// in a few numbers. docs/reference.md lists the type of each command's JSON.

import type { EvaluateResult } from "../api/evaluate.ts";
import type { RolloutResult } from "../api/rollout.ts";
import { endingOf, type Episode } from "../core/index.ts";

/** Of `rollout`. */
export type RolloutJson = Omit<RolloutResult, "redact">;

export function rolloutJson(result: RolloutResult): RolloutJson {
  const { folder, status, totals, environment, split, isResumable } = result;
  return { folder, status, totals, environment, split, isResumable };
}

/** Of `eval`: results.json, with where it came from, what the environment confirms and the agreement with labels. */
export function evaluationJson({ source, title, evaluation, scores, rescored, agreement, rollout }: EvaluateResult) {
  return {
    ...{ format: 1, source, title, ...evaluation, scores },
    ...{ rescored, agreement: Object.fromEntries(agreement), rollout: rollout === null ? null : rolloutJson(rollout) },
  };
}

/** Of `inspect <run>`: a line of its table. */
export type EpisodeRow = {
  /** As `inspect <run> <number>` takes it. */
  readonly number: number;
  readonly id: string;
  readonly taskId: string;
  readonly reward: number | null;
  readonly outcome: string;
  readonly stopReason: string;
  readonly turns: number;
  readonly tokens: number;
  readonly sampledTokens: number;
  /** By code. */
  readonly problems: Readonly<Record<string, number>>;
};

export function episodeRow(number: number, episode: Episode): EpisodeRow {
  const { turns } = episode.trajectory;
  const sampledTokens = turns.reduce((sum, turn) => sum + turn.sampledTokens.length, 0);
  const observed = turns.reduce((sum, turn) => sum + turn.observationTokens.length, 0);
  const problems = new Map<string, number>();
  for (const { code } of episode.problems) problems.set(code, (problems.get(code) ?? 0) + 1);
  return {
    ...{ number, id: episode.id, taskId: episode.task.id, reward: episode.reward, outcome: episode.outcome },
    stopReason:
      episode.failure === null
        ? (endingOf(episode) ?? episode.stopReason)
        : `${episode.failure.boundary}/${episode.failure.code}`,
    ...{ turns: turns.length, tokens: observed + sampledTokens, sampledTokens, problems: Object.fromEntries(problems) },
  };
}
