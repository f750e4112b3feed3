// Who watches a run: metrics for Prometheus, spans for OpenTelemetry, event files for TensorBoard, log lines.

export { type LoopLag, measureLoopLag } from "./loop-lag.ts";
export { type MetricsPage, type MetricsServer, type MetricsServerOptions, serveMetrics } from "./metrics-server.ts";
export { createRunLog, type RunLogOptions } from "./run-log.ts";
export { createRunMetrics, type RunMetrics } from "./run-metrics.ts";
export { type CircuitChange, observeWithAll, type RunGauges, type RunObserver } from "./run-observer.ts";
export { createRunTraces, type RunTracesOptions } from "./run-traces.ts";
export { createTensorboard, type TensorboardOptions } from "./tensorboard.ts";
