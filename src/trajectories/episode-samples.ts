// Which tokens of an episode are trained. Aborted and failed episodes train nothing by default: their rewards are unknown,
// and an unknown reward is not zero.

import type { DroppedTokens, Episode, EpisodeSamples, Turn } from "../core/index.ts";
import { conservationViolations } from "./check-samples.ts";
import { toSamples, trainedBranches } from "./samples.ts";
import { discardedTurns } from "./turn-rewards.ts";

/** The training rows of an episode and what is in none of them, checked for conservation; nothing for an agent behind an API. Throws when a token would be lost or trained twice. */
export function episodeSamples(episode: Episode): EpisodeSamples {
  if (episode.historyPolicy === "no-tokens") return { samples: [], dropped: [] };
  const result = toSamples(
    episode.trajectory,
    {
      episodeId: episode.id,
      groupId: episode.groupId,
      taskId: episode.task.id,
      reward: episode.reward,
      tokenAccounting: "token-exact",
      historyPolicy: episode.historyPolicy,
    },
    { dropTurn: dropTurnOf(episode) },
  );
  const violations = conservationViolations(episode.trajectory, result);
  if (violations.length > 0) {
    throw new Error(
      `Cannot make samples of episode "${episode.id}": ${violations.slice(0, 3).join(" ")} This is a bug of trainable-agents.`,
    );
  }
  return result;
}

/** How many training rows {@link episodeSamples} makes, and of what size, without making them. */
export type SampleCounts = {
  readonly samples: number;
  readonly trainedTokens: number;
  /** Tokens of the longest one, prompt included. */
  readonly longest: number;
};

export function countSamples(episode: Episode): SampleCounts {
  const counts = { samples: 0, trainedTokens: 0, longest: 0 };
  if (episode.historyPolicy === "no-tokens") return counts;
  for (const { path, trained } of trainedBranches(episode.trajectory, dropTurnOf(episode)).branches) {
    const length = path.reduce((sum, turn) => sum + turn.observationTokens.length + turn.sampledTokens.length, 0);
    counts.samples++;
    counts.trainedTokens += trained.reduce((sum, turn) => sum + turn.sampledTokens.length, 0);
    counts.longest = Math.max(counts.longest, length);
  }
  return counts;
}

function dropTurnOf(episode: Episode): (turn: Turn) => DroppedTokens["reason"] | null {
  const reason = dropReason(episode);
  const discarded = discardedTurns(episode);
  const restarted = new Set(episode.events.flatMap((event) => (event.type === "restart" ? event.turns : [])));
  // In an episode that trains, only attempts that were sampled again have ended in an abort.
  return ({ index }) =>
    restarted.has(index) ? "restarted" : (reason ?? (discarded.has(index) ? "discarded-turn" : null));
}

function dropReason(episode: Episode): DroppedTokens["reason"] | null {
  if (episode.outcome === "failed") return "episode-failed";
  if (episode.outcome === "aborted") return "episode-aborted";
  return episode.reward === null ? "not-graded" : null;
}
