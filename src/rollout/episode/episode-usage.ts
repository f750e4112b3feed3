// Usage of the models behind APIs in an episode.

import type { Episode } from "../../core/episode.ts";
import { addUsage, freeUsage, type ModelUsage } from "../../core/user.ts";

/** Usage of the models behind APIs in an episode, by role. */
export type EpisodeUsage = { readonly agent: ModelUsage; readonly user: ModelUsage; readonly judge: ModelUsage };

/**
 * Sums every call of an episode, retries and checks included. Zero for an agent with an engine, or
 * a user without a model.
 */
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
