// The vLLM protocol front.

export { createVllmFront, type VllmFront, type VllmFrontOptions } from "./vllm-front.ts";
export { garbleVllm, vllmGarblings } from "./garble-choice.ts";
