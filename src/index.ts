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
} from "./rollout/index.ts";
export { type CallOptions } from "./api/options.ts";
export {
  planRollout,
  rollout,
  type RolloutEvent,
  type RolloutOptions,
  type RolloutResult,
  type StartedRun,
} from "./api/rollout.ts";
export { work, type WorkerProgress, type WorkOptions, type WorkResult } from "./api/work.ts";
export { evaluate, type EvaluateOptions, type EvaluateResult, planEvaluation } from "./api/evaluate.ts";
export { compareRuns, type CompareRunsOptions } from "./api/compare-runs.ts";
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
export { train, type TrainOptions, type TrainResult } from "./api/train.ts";
export { auditTemplate, type AuditTemplateOptions } from "./api/audit-template.ts";
export {
  auditEnvironment,
  type AuditEnvironmentOptions,
  type AuditEnvironmentResult,
  type AuditedEnvironment,
  type EnvironmentSourceOptions,
  loadEnvironmentSource,
} from "./api/audit-environment.ts";
export { auditEngine, type AuditEngineOptions, type AuditEngineResult, type EngineCheck } from "./api/audit-engine.ts";
export {
  type ExportCounts,
  exportRun,
  type ExportRunOptions,
  type ExportRunResult,
  NothingToExportError,
} from "./api/export-run.ts";
export { mergeRun, type MergeRunOptions, type MergeRunResult } from "./api/merge-run.ts";
export { type RunningEnvServer, serveEnvironment, type ServeEnvironmentOptions } from "./api/env-server.ts";
export { initEnvironment, type InitEnvironmentOptions, type InitEnvironmentResult } from "./api/init-environment.ts";
export { gateway, type GatewayOptions, type RunningGateway } from "./api/gateway.ts";
export { type RunningService, serve, type ServeOptions } from "./api/serve.ts";
export { exportView, type ExportViewOptions, type RunningViewer, view, type ViewOptions } from "./api/view.ts";
