// The engine for vLLM servers.

export type { EndpointName, VllmWarning } from "./endpoints.ts";
export { createVllmEngine, type VllmEngine, type VllmEngineOptions } from "./vllm-engine.ts";
