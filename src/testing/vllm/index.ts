// The vLLM protocol front.

export { vllmProtocols, type VllmProtocol, type VllmVersion } from "./protocol.ts";
export { createVllmFront, type VllmFront, type VllmFrontOptions } from "./vllm-front.ts";
export { garbleVllm, vllmGarblings } from "./garble-choice.ts";
