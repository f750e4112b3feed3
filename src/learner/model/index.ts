// The embedded model: a Qwen3 small enough for a processor. Weights in Hugging Face's layout, a training pass with gradients
// and AdamW, and a decoder over a paged cache, computed by WebAssembly kernels. No engine and no learner: see
// `engines/embedded/` and `learner/`.

export {
  type Checkpoint,
  firstNotFinite,
  readCheckpoint,
  toTensors,
  writeCheckpoint,
  type WriteCheckpointOptions,
} from "./checkpoint.ts";
export { Decoder, type DecoderOptions, pageTokens } from "./decoder.ts";
export { exportGguf } from "./gguf/export-gguf.ts";
export { initializeWeights, type InitializeOptions } from "./initialize-weights.ts";
export { type CompiledKernels, type KernelBuild, loadKernels } from "./load-kernels.ts";
export { type ModelConfig, readModelConfig, shapeProblem, toHuggingFaceConfig } from "./model-config.ts";
export { type ModelShape, modelShapes } from "./model-shapes.ts";
export { type Parameter, parameterLayout, type ParameterLayout } from "./parameter-layout.ts";
export { readSafetensors, roundToBrainFloats, type Tensor, type WrittenType, writeSafetensors } from "./safetensors.ts";
export { shippedCheckpoint, shippedCheckpoints, type ShippedCheckpoint } from "./shipped-checkpoint.ts";
export {
  type OptimizerState,
  type TargetProbabilities,
  TrainingModel,
  type TrainingModelOptions,
} from "./training-model.ts";
export type { UpdateOptions } from "./training/adamw.ts";
export type { TrainingLimits } from "./training/buffers.ts";
export { type PackedBatch, packSequences, type TrainingSequence } from "./training/packed-batch.ts";
