// Observers of a run: metrics for Prometheus, spans for OpenTelemetry, log lines; and its curves,
// for TensorBoard, W&B, MLflow, trackio.

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
export {
  type CurveOptions,
  type CurvePoint,
  type CurveRun,
  type CurveSink,
  type CurveSinkOptions,
  observeCurves,
} from "./curves.ts";
export { createMlflow, createTrackio, type MetricServerOptions } from "./metric-servers.ts";
export { createTensorboard } from "./tensorboard.ts";
export { createWandb } from "./wandb.ts";
