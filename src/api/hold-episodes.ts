// Episodes of an engine that keeps their state between turns: no more run at once than it holds.

import type { EpisodeHolder } from "../core/local-engine.ts";
import { createSemaphore } from "../lib/limits.ts";
import { routingKeyOf, type RunEpisode } from "../rollout/loop.ts";

/** Further episodes wait before they begin, and an episode's place is free as soon as it has ended. */
export function holdEpisodes(runEpisode: RunEpisode, engine: EpisodeHolder): RunEpisode {
  const places = createSemaphore(engine.mostEpisodes);
  return async (task, request) => {
    // A cancelled episode runs without a place: it ends at once, and says so itself.
    const release = await places.acquire(request.signal).catch(() => () => undefined);
    try {
      return await runEpisode(task, request);
    } finally {
      engine.endEpisode(routingKeyOf(request.episodeId));
      release();
    }
  };
}
