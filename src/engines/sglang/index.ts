// The engine for SGLang servers and routers.

export type { SglangWorker } from "./sglang-control.ts";
export { createSglangEngine, type SglangEngine, type SglangEngineOptions } from "./sglang-engine.ts";
