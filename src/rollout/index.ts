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
export { type ChatEpisodeParts, runChatEpisode, runEpisode } from "./episode/run-episode.ts";
export { type AdaptiveConcurrency } from "./concurrency/episode-limit.ts";
export { type ConcurrencyBounds } from "./concurrency/concurrency-bounds.ts";
export { firstLimit, type LimitObservation, type LimitState, nextLimit } from "./concurrency/next-limit.ts";
export {
  chatEpisodeRunner,
  episodeRunner,
  type EpisodeRequest,
  type FinishedEpisode,
  resumableRunner,
  type RunEpisode,
} from "./episode-runner.ts";
export { type QuotaOptions } from "./group-quota.ts";
export {
  type ExportSamples,
  type Group,
  type GroupStore,
  runGroup,
  runGroups,
  type RunGroupsOptions,
} from "./group-scheduler.ts";
export {
  dropZeroSignal,
  type EpisodePosition,
  episodeSeed,
  type FinishedGroup,
  type GroupFilter,
  type GroupMember,
  type GroupPolicy,
  type GroupView,
  keepAllGroups,
  keepRewardRange,
  minGradedToTrain,
  type PlannedGroup,
} from "./groups.ts";
export {
  type BegunGroup,
  type EarlierProduction,
  type ProducedGroup,
  type ProducerOptions,
  type ProducerParts,
  type ProducerPlan,
  type ProducerState,
  type ProducerStatus,
  type TakenGroup,
  type TakeOptions,
} from "./producer/producer-options.ts";
export { createRolloutProducer, type RolloutProducer } from "./producer/rollout-producer.ts";
export { groupCapacity, WeightHistory } from "./producer/staleness.ts";
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
