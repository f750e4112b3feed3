// Many episodes at once: plans, totals, warnings.

export {
  chatPlayer,
  type EpisodePlace,
  type EpisodePlayer,
  type PlayedEpisode,
  tokenExactPlayer,
} from "./episode-player.ts";
export { rolloutWarnings } from "./rollout-warnings.ts";
export { type RolloutOptions, type RolloutParts, type RolloutPlan, runRollout } from "./run-rollout.ts";
export { type Counts, type RunTotals } from "./run-totals.ts";
