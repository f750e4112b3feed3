// Which tokens of an episode are trained. Aborted and failed episodes train nothing by default: their rewards are unknown,
// and an unknown reward is not zero.

import type { Episode, EpisodeSamples } from "../../core/episode.ts";
import type { DroppedTokens } from "../../core/turn.ts";
import { addUsage, freeUsage, type ModelUsage } from "../../core/user.ts";
import { conservationViolations, discardedTurns, toSamples } from "../../trajectories/index.ts";

/** The training rows of an episode and what is in none of them, checked for conservation; nothing for an agent behind an API. Throws when a token would be lost or trained twice. */
export function episodeSamples(episode: Episode): EpisodeSamples {
  if (episode.historyPolicy === "no-tokens") return { samples: [], dropped: [] };
  const reason = dropReason(episode);
  const discarded = discardedTurns(episode);
  const restarted = new Set(episode.events.flatMap((event) => (event.type === "restart" ? event.turns : [])));
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
    // In an episode that trains, only attempts that were sampled again have ended in an abort.
    {
      dropTurn: ({ index }) =>
        restarted.has(index) ? "restarted" : (reason ?? (discarded.has(index) ? "discarded-turn" : null)),
    },
  );
  const violations = conservationViolations(episode.trajectory, result);
  if (violations.length > 0) {
    throw new Error(
      `Cannot make samples of episode "${episode.id}": ${violations.slice(0, 3).join(" ")} This is a bug of trainable-agents.`,
    );
  }
  return result;
}

function dropReason(episode: Episode): DroppedTokens["reason"] | null {
  if (episode.outcome === "failed") return "episode-failed";
  if (episode.outcome === "aborted") return "episode-aborted";
  return episode.reward === null ? "not-graded" : null;
}

/** Usage of the models behind APIs in an episode, by role. */
export type EpisodeUsage = { readonly agent: ModelUsage; readonly user: ModelUsage; readonly judge: ModelUsage };

/** Sums every call of an episode, retries and checks included. Nothing for an agent with an engine, or a user without a model. */
export function episodeUsage({ events }: Pick<Episode, "events">): EpisodeUsage {
  let [agent, user, judge] = [freeUsage, freeUsage, freeUsage];
  for (const event of events) {
    if (event.type === "agent-reply") agent = addUsage(agent, event.usage);
    if (event.type === "user-line") user = addUsage(user, event.line.usage);
    if (event.type === "restart") {
      agent = addUsage(agent, event.usage.agent);
      user = addUsage(user, event.usage.user);
      judge = addUsage(judge, event.usage.judge);
    }
    if (event.type === "judgement") judge = addUsage(judge, event.judgement.usage);
  }
  return { agent, user, judge };
}
