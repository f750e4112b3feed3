// The public entry of the package: a function for everything that a command does, the loop, its strategies and its records.
// Engines, environments, renderers, tokenizers, users and everything else come from the subpaths.

export { agentFactory, type AgentFactoryOptions, createToolCalling, toolInstructionEdit } from "./agents/index.ts";
export {
  type AgentStrategy,
  AttributedError,
  ConfigurationError,
  defaultSampling,
  type ChatAgent,
  type Engine,
  type Environment,
  type EnvironmentSource,
  type Episode,
  type EpisodeEvent,
  type EpisodeSamples,
  type Failure,
  type Message,
  type Renderer,
  type Sample,
  type SamplingParams,
  type Task,
  type Taskset,
  type Tokenizer,
  type Tool,
  type Trajectory,
  type UserSimulator,
  type UserSource,
} from "./core/index.ts";
export {
  type ChatEpisodeParts,
  chooseTask,
  defaultLimits,
  type EpisodeLimits,
  type EpisodeOptions,
  type EpisodeParts,
  episodeSamples,
  episodeUsage,
  type Group,
  runChatEpisode,
  runEpisode,
  runGroup,
} from "./rollout/loop.ts";
export {
  auditEngine,
  auditEnvironment,
  auditTemplate,
  compareRuns,
  evaluate,
  exportRun,
  exportView,
  gateway,
  initEnvironment,
  loadEnvironmentSource,
  mergeRun,
  planEvaluation,
  planRollout,
  rollout,
  scoreRun,
  serve,
  serveEnvironment,
  train,
  verifyRows,
  view,
  work,
} from "./api/functions.ts";
export type { CallOptions } from "./api/options.ts";
export type { RolloutEvent, RolloutOptions, RolloutResult, StartedRun } from "./api/rollout.ts";
export type { WorkerProgress, WorkOptions, WorkResult } from "./api/work.ts";
export type { EvaluateOptions, EvaluateResult } from "./api/evaluate.ts";
export type { CompareRunsOptions } from "./api/compare-runs.ts";
export {
  type ComparedEpisode,
  type Comparison,
  type ComparisonPair,
  type ComparisonRow,
  comparisonSentence,
  type Interval,
  type MeanDifference,
  type RowChange,
  type TaskInRun,
} from "./statistics/index.ts";
export type { Expert, ExpertAction, ExpertView } from "./api/from-expert.ts";
export type { TrainOptions, TrainResult } from "./api/train.ts";
export type { AuditTemplateOptions } from "./api/audit-template.ts";
export type {
  AuditEnvironmentOptions,
  AuditEnvironmentResult,
  AuditedEnvironment,
  EnvironmentSourceOptions,
} from "./api/audit-environment.ts";
export type { AuditEngineOptions, AuditEngineResult, EngineCheck } from "./api/audit-engine.ts";
export { type ExportCounts, NothingToExportError } from "./api/export-counts.ts";
export type { ExportRunOptions, ExportRunResult } from "./api/export-run.ts";
export type { MergeRunOptions, MergeRunResult } from "./api/merge-run.ts";
export type { RowsFault, VerifyRowsOptions, VerifyRowsResult } from "./api/verify-rows.ts";
export type { ScoreCounts, ScoreRunOptions, ScoreRunResult } from "./api/score-run.ts";
export type { TeacherOptions } from "./api/teacher.ts";
export type { RunningEnvServer, ServeEnvironmentOptions } from "./api/env-server.ts";
export type { InitEnvironmentOptions, InitEnvironmentResult } from "./api/init-environment.ts";
export type { GatewayOptions, RunningGateway } from "./api/gateway.ts";
export type { RunningService, ServeOptions } from "./api/serve.ts";
export type { ExportViewOptions, RunningViewer, ViewOptions } from "./api/view.ts";
