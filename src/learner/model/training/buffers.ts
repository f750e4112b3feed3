// The memory of a training pass: what the way forward keeps for the way back, and what both work in. All are pointers.

import type { Arena } from "../arena.ts";
import type { Kernels } from "../kernels.ts";
import type { ModelConfig } from "../model-config.ts";

export type TrainingLimits = {
  /** Most tokens of one pass, a shared prefix counted once. */
  readonly maxTokens: number;
  /** Most logprobs of one pass; each takes a row of logits. */
  readonly maxTargets: number;
};

export type LayerActivations = ReturnType<typeof allocateLayer>;
export type TrainingBuffers = ReturnType<typeof allocateBuffers>;

/** Kernels may write zeros up to 7 rows beyond the last. */
const spareRows = 8;

export function allocateBuffers(arena: Arena, kernels: Kernels, config: ModelConfig, limits: TrainingLimits) {
  const { hiddenSize, headSize, feedForwardSize, heads, keyValueHeads, vocabularySize } = config;
  const { maxTargets } = limits;
  const rows = limits.maxTokens + spareRows;
  const floats = (count: number): number => arena.allocate(count);
  const queryWidth = heads * headSize;
  const keyWidth = keyValueHeads * headSize;
  const panels = (): number => floats((rows + spareRows) * keyWidth);
  const angles = (config.contextLength * headSize) / 2;
  const scores = kernels.scoreFloats(config.contextLength);
  return {
    cosines: floats(angles),
    sines: floats(angles),
    tokens: floats(rows),
    positions: floats(rows),
    /** How many tokens of its own segment each row sees. */
    visible: floats(rows),
    /** Of the rows that predict something: which they are, and the same of them. */
    outputRows: floats(rows),
    outputPositions: floats(rows),
    outputVisible: floats(rows),
    /** One more than there are layers: each layer's input, then the output of the last. */
    hidden: Array.from({ length: config.layers + 1 }, () => floats(rows * hiddenSize)),
    layers: Array.from({ length: config.layers }, () => allocateLayer(arena, config, rows)),
    final: floats(rows * hiddenSize),
    finalScales: floats(rows),

    targetOutputs: floats(maxTargets),
    targets: floats(maxTargets),
    picked: floats(maxTargets * hiddenSize),
    pickedGradient: floats(maxTargets * hiddenSize),
    logits: floats(maxTargets * vocabularySize),
    logSums: floats(maxTargets),
    logprobs: floats(maxTargets),
    entropies: floats(maxTargets),
    coefficients: floats(maxTargets),
    entropyCoefficients: floats(maxTargets),

    /** Panels of keys and values: of one sequence, and of the shared prefix. */
    own: { keys: panels(), keyRows: panels(), values: panels(), valueColumns: panels() },
    prefix: { keys: panels(), keyRows: panels(), values: panels(), valueColumns: panels() },
    scores: floats(scores),
    slopes: floats(scores),
    scratch: floats(8192 + 256 * headSize),

    gradient: floats(rows * hiddenSize),
    /** By the rows of the last layer that predict something. */
    outputGradient: floats(rows * hiddenSize),
    normGradient: floats(rows * hiddenSize),
    pickedNormGradient: floats(rows * hiddenSize),
    innerGradient: floats(rows * feedForwardSize),
    gateUpGradient: floats(rows * 2 * feedForwardSize),
    attendedGradient: floats(rows * queryWidth),
    queryGradient: floats(rows * queryWidth),
    keyGradient: floats(rows * keyWidth),
    valueGradient: floats(rows * keyWidth),
    /** Activations packed for the gradient of a matrix. */
    packed: floats(rows * Math.max(hiddenSize, feedForwardSize, queryWidth)),
  };
}

function allocateLayer(arena: Arena, config: ModelConfig, rows: number) {
  const { hiddenSize, headSize, feedForwardSize, heads, keyValueHeads } = config;
  const floats = (width: number): number => arena.allocate(rows * width);
  return {
    input: floats(hiddenSize),
    /** Those rows of `input` whose queries are computed; used in the last layer. */
    queryInput: floats(hiddenSize),
    inputScales: floats(1),
    rawQueries: floats(heads * headSize),
    rawKeys: floats(keyValueHeads * headSize),
    queries: floats(heads * headSize),
    keys: floats(keyValueHeads * headSize),
    values: floats(keyValueHeads * headSize),
    queryScales: floats(heads),
    keyScales: floats(keyValueHeads),
    attended: floats(heads * headSize),
    logSums: floats(heads),
    /** After attention is added. */
    middle: floats(hiddenSize),
    feedForwardInput: floats(hiddenSize),
    feedForwardScales: floats(1),
    gateUp: floats(2 * feedForwardSize),
    inner: floats(feedForwardSize),
  };
}
