// The engine for vLLM servers.

export type { EndpointName } from "./endpoints.ts";
export type { VllmWarning } from "./logprobs-mode.ts";
export { createVllmEngine, type VllmEngine } from "./vllm-engine.ts";
export type { VllmEngineOptions } from "./vllm-options.ts";
