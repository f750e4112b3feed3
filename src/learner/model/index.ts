// The embedded model: a Qwen3 small enough for a CPU. Weights in Hugging Face's layout, a training
// pass with gradients and AdamW, and a decoder over a paged cache, computed by WebAssembly kernels.
// Neither an engine nor a learner: see `engines/embedded/` and `learner/`.

export {
  type Checkpoint,
  firstNotFinite,
  readCheckpoint,
  toTensors,
  writeCheckpoint,
  type WriteCheckpointOptions,
  readSafetensors,
  roundToBrainFloats,
  type Tensor,
  type WrittenType,
  writeSafetensors,
} from "./checkpoint.ts";
export { Decoder, type DecoderOptions, pageTokens } from "./decoder.ts";
export { exportGguf } from "./gguf.ts";
export { initializeWeights, type InitializeOptions } from "./initialize-weights.ts";
export { type CompiledKernels, type KernelBuild, loadKernels } from "./kernels.ts";
export {
  type ModelConfig,
  readModelConfig,
  shapeProblem,
  toHuggingFaceConfig,
  type ModelShape,
  modelShapes,
} from "./model-config.ts";
export { type Parameter, parameterLayout, type ParameterLayout } from "./parameter-layout.ts";
export {
  type OptimizerState,
  type TargetProbabilities,
  TrainingModel,
  type TrainingModelOptions,
  type UpdateOptions,
} from "./training-model.ts";
export { type TrainingLimits, type PackedBatch, packSequences, type TrainingSequence } from "./training-memory.ts";
export { type ShippedCheckpoint, shippedCheckpoint, shippedCheckpoints } from "./shipped-checkpoints.ts";
