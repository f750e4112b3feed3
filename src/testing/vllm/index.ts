// The vLLM protocol front. The samplers to put behind it are those of the SGLang front.

export { createVllmFront, type VllmFront, type VllmFrontOptions } from "./vllm-front.ts";
export { garbleVllm, vllmGarblings } from "./garble-choice.ts";
