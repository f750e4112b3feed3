// The engine for SGLang servers and routers.

export { createSglangEngine, type SglangEngine } from "./sglang-engine.ts";
export type { SglangEngineOptions } from "./sglang-options.ts";
export type { SglangWorker } from "./workers.ts";
