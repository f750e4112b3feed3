// Observers of a run: metrics for Prometheus, spans for OpenTelemetry, event files for TensorBoard, log lines.

export {
  type LoopLag,
  measureLoopLag,
  type MetricsPage,
  type MetricsServer,
  type MetricsServerOptions,
  serveMetrics,
  createRunMetrics,
  type RunMetrics,
} from "./prometheus.ts";
export { createRunLog, type RunLogOptions } from "./log.ts";
export { type CircuitChange, observeWithAll, type RunGauges, type RunObserver } from "./observer.ts";
export { createRunTraces, type RunTracesOptions, type TracedPolicy } from "./traces.ts";
export type { CurveOptions, CurveRun } from "./curves.ts";
export { createMlflow, createTrackio, type MetricServerOptions } from "./metric-servers.ts";
export { createTensorboard } from "./tensorboard.ts";
export { createWandb } from "./wandb.ts";
