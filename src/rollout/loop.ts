// One episode, and many at once, in this process: plans, groups and their filters, curricula, concurrency, totals, warnings.

export { checkedOpening, readTask } from "./episode/checked-environment.ts";
export {
  chooseTask,
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
  byPriority,
} from "./tasks.ts";
export {
  defaultEngineAbort,
  defaultEngineRetry,
  type EngineAbortPolicy,
  defaultLimits,
  defaultTimeouts,
  type EpisodeLimits,
  type EpisodeOptions,
  type EpisodeParts,
  type ExpertsHook,
  type PhaseTimeouts,
  type TurnExperts,
} from "./episode/episode-options.ts";
export type { SamplingMaskSink } from "./episode/kept-ids.ts";
export { resolveOptions, type ResolvedOptions } from "./episode/episode-options.ts";
export { sampleTurn, shortKey as routingKeyOf } from "./episode/sample-turn.ts";
export { episodeSamples } from "../trajectories/index.ts";
export { episodeUsage, type EpisodeUsage } from "./episode/episode-events.ts";
export { type ChatEpisodeParts, runChatEpisode, runEpisode } from "./episode/run-episode.ts";
export { type AdaptiveConcurrency } from "./concurrency/episode-limit.ts";
export {
  type ConcurrencyBounds,
  firstLimit,
  type LimitObservation,
  type LimitState,
  nextLimit,
} from "./concurrency/next-limit.ts";
export {
  chatEpisodeRunner,
  type DispatchEpisode,
  type EndedEpisode,
  endedOf,
  episodeRunner,
  type EpisodeRequest,
  type FinishedEpisode,
  resumableRunner,
  type RunEpisode,
  summarizeEpisode,
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
export { combineGrades, digestOf } from "./grading.ts";
export type { RankGroup } from "./rank-group.ts";
export {
  dropZeroSignal,
  type EpisodePosition,
  episodeSeed,
  type FinishedGroup,
  type GroupFilter,
  groupIdOf,
  type GroupMember,
  type GroupPolicy,
  groupRecord,
  type GroupResult,
  type GroupView,
  keepAllGroups,
  keepRewardRange,
  minGradedToTrain,
  type PlannedGroup,
  reasonToDrop,
  tasksInOrder,
  type TaskSource,
} from "./groups.ts";
export { rolloutWarnings, ratesOf, type RunTotals } from "./run-totals.ts";
export { type RolloutOptions, type RolloutParts, type RolloutPlan, runRollout } from "./run-rollout.ts";
