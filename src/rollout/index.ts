// Public entry: one episode, and many at once (plans, groups and their filters, curricula, concurrency, totals, warnings).

export { openChecked, readTask } from "./episode/checked-environment.ts";
export { chooseTask } from "./episode/choose-task.ts";
export { defaultEngineAbort, type EngineAbortPolicy } from "./episode/engine-abort.ts";
export {
  defaultEngineRetry,
  defaultLimits,
  defaultTimeouts,
  type EpisodeLimits,
  type EpisodeOptions,
  type EpisodeParts,
  type PhaseTimeouts,
} from "./episode/episode-options.ts";
export { episodeSamples } from "./episode/episode-samples.ts";
export { episodeUsage, type EpisodeUsage } from "./episode/episode-usage.ts";
export { type ChatEpisodeParts, runChatEpisode } from "./episode/run-chat-episode.ts";
export { runEpisode } from "./episode/run-episode.ts";
export { episodeSeed, type Group, runGroup } from "./episode/run-group.ts";
export { type AdaptiveConcurrency } from "./concurrency/episode-limit.ts";
export { type ConcurrencyBounds } from "./concurrency/concurrency-bounds.ts";
export { firstLimit, type LimitObservation, type LimitState, nextLimit } from "./concurrency/next-limit.ts";
export {
  chatEpisodeRunner,
  type EpisodeRequest,
  type RunEpisode,
  type FinishedEpisode,
  episodeRunner,
} from "./episode-player.ts";
export { dropZeroSignal, type GroupFilter, type GroupView, keepRewardRange } from "./groups/group-filter.ts";
export { type GroupPolicy, keepAllGroups, minGradedToTrain } from "./groups/group-policy.ts";
export { type EpisodePosition } from "./groups/group-record.ts";
export { type QuotaOptions } from "./groups/group-quota.ts";
export {
  type ProducedGroup,
  type ProducerState,
  type ProducerStatus,
  type TakenGroup,
  type TakeOptions,
} from "./producer/produced-group.ts";
export {
  type BegunGroup,
  type EarlierProduction,
  type ProducerOptions,
  type ProducerParts,
  type ProducerPlan,
} from "./producer/producer-options.ts";
export { createRolloutProducer, type RolloutProducer } from "./producer/rollout-producer.ts";
export { groupCapacity, WeightHistory } from "./producer/staleness.ts";
export { resumableRunner } from "./resumable-player.ts";
export { rolloutWarnings } from "./rollout-warnings.ts";
export { type RolloutOptions, type RolloutParts, type RolloutPlan, runRollout } from "./run-rollout.ts";
export { type Counts, ratesOf, type RunTotals } from "./run-totals.ts";
export {
  createCurriculum,
  type CurriculumOptions,
  defaultPools,
  defaultPoolWeights,
  type DifficultyPool,
  drawByPools,
  type PoolBounds,
  poolOf,
  type PoolWeights,
  type TaskRecord,
  type TaskStrategy,
} from "./tasks/curriculum.ts";
export { byPriority, type GroupResult, tasksInOrder, type TaskSource } from "./tasks/task-source.ts";
