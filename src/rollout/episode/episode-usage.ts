import type { Episode } from "../../core/episode.ts";
import { addUsage, freeUsage, type ModelUsage } from "../../core/user.ts";

/** What the models behind APIs cost in an episode, by whom they played. */
export type EpisodeUsage = { readonly agent: ModelUsage; readonly user: ModelUsage };

/** Sums every call of an episode, retries and checks included. Nothing for an agent with an engine, or a user without a model. */
export function episodeUsage({ events }: Pick<Episode, "events">): EpisodeUsage {
  let [agent, user] = [freeUsage, freeUsage];
  for (const event of events) {
    if (event.type === "agent-reply") agent = addUsage(agent, event.usage);
    if (event.type === "user-line") user = addUsage(user, event.line.usage);
  }
  return { agent, user };
}
