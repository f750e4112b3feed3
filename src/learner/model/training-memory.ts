// The memory of a training pass: the values that the forward pass keeps for the backward pass, and
// the buffers of both. All are pointers.

import type { Arena, Kernels } from "./kernels.ts";
import type { ModelConfig } from "./model-config.ts";
import type { forwardOperations, ParameterLayout } from "./parameter-layout.ts";

export type TrainingLimits = {
  /** Maximum number of tokens of one pass, a shared prefix counted once. */
  readonly maxTokens: number;
  /** Maximum number of logprobs of one pass; each takes a row of logits. */
  readonly maxTargets: number;
};

type TrainingBuffers = ReturnType<typeof allocateBuffers>;

/** Kernels may write zeros up to 7 rows beyond the last. */
const spareRows = 8;

export function allocateBuffers(arena: Arena, kernels: Kernels, config: ModelConfig, limits: TrainingLimits) {
  const { hiddenSize, headSize, feedForwardSize, heads, keyValueHeads, vocabularySize } = config;
  const { maxTargets } = limits;
  const rows = limits.maxTokens + spareRows;
  const queryWidth = heads * headSize;
  const keyWidth = keyValueHeads * headSize;
  const panels = ["keys", "keyRows", "values", "valueColumns"] as const;
  const panelFloats = (rows + spareRows) * keyWidth;
  return {
    ...arena.allocateEach(["cosines", "sines"], (config.contextLength * headSize) / 2),
    // `visible`: number of tokens of its own segment that each row sees.
    ...arena.allocateEach(["tokens", "positions", "visible", "finalScales"], rows),
    // The rows that predict something: their indexes, then the same fields for them.
    ...arena.allocateEach(["outputRows", "outputPositions", "outputVisible"], rows),
    /** One more than there are layers: each layer's input, then the output of the last. */
    hidden: Array.from({ length: config.layers + 1 }, () => arena.allocate(rows * hiddenSize)),
    layers: Array.from({ length: config.layers }, () => allocateLayer(arena, config, rows)),

    ...arena.allocateEach(["targetOutputs", "targets", "logSums", "logprobs", "entropies"], maxTargets),
    ...arena.allocateEach(["coefficients", "entropyCoefficients"], maxTargets),
    ...arena.allocateEach(["picked", "pickedGradient"], maxTargets * hiddenSize),
    logits: arena.allocate(maxTargets * vocabularySize),

    /** Panels of keys and values: of one sequence, and of the shared prefix. */
    own: arena.allocateEach(panels, panelFloats),
    prefix: arena.allocateEach(panels, panelFloats),
    ...arena.allocateEach(["scores", "slopes"], kernels.scoreFloats(config.contextLength)),
    scratch: arena.allocate(8192 + 256 * headSize),

    ...arena.allocateEach(["final", "gradient", "normGradient"], rows * hiddenSize),
    // Indexed by the rows of the last layer that predict something.
    ...arena.allocateEach(["outputGradient", "pickedNormGradient"], rows * hiddenSize),
    innerGradient: arena.allocate(rows * feedForwardSize),
    gateUpGradient: arena.allocate(rows * 2 * feedForwardSize),
    ...arena.allocateEach(["attendedGradient", "queryGradient"], rows * queryWidth),
    ...arena.allocateEach(["keyGradient", "valueGradient"], rows * keyWidth),
    /** Activations packed for the gradient of a matrix. */
    packed: arena.allocate(rows * Math.max(hiddenSize, feedForwardSize, queryWidth)),
  };
}

/** `queryInput`: those rows of `input` whose queries are computed; used in the last layer. `middle`: after attention is added. */
function allocateLayer(arena: Arena, config: ModelConfig, rows: number) {
  const { hiddenSize, headSize, feedForwardSize, heads, keyValueHeads } = config;
  return {
    ...arena.allocateEach(["input", "queryInput", "middle", "feedForwardInput"], rows * hiddenSize),
    ...arena.allocateEach(["inputScales", "feedForwardScales"], rows),
    ...arena.allocateEach(["rawQueries", "queries", "attended"], rows * heads * headSize),
    ...arena.allocateEach(["rawKeys", "keys", "values"], rows * keyValueHeads * headSize),
    ...arena.allocateEach(["queryScales", "logSums"], rows * heads),
    keyScales: arena.allocate(rows * keyValueHeads),
    gateUp: arena.allocate(rows * 2 * feedForwardSize),
    inner: arena.allocate(rows * feedForwardSize),
  };
}

/** One sequence, and the logprobs requested of it. */
export type TrainingSequence = {
  readonly tokens: ArrayLike<number>;
  /** Places of the tokens whose logprob is requested, each given the tokens before it; never 0. */
  readonly targets: ArrayLike<number>;
};

export type PackedBatch = {
  /** The shared prefix, then the rest of each sequence. */
  readonly tokens: Uint32Array;
  /** Aligned with `tokens`: the place in its own sequence. */
  readonly positions: Uint32Array;
  /** Length of the shared prefix; 0 if nothing is shared. */
  readonly prefixLength: number;
  /** Tokens that each sequence has beyond the prefix. */
  readonly lengths: readonly number[];
  /** Rows of `tokens` that predict something, ascending. */
  readonly outputRows: Uint32Array;
  /** One per logprob requested, sequence by sequence: the token to be predicted. */
  readonly targets: Uint32Array;
  /** Aligned with `targets`: the place in `outputRows` of the row that predicts it. */
  readonly targetOutputs: Uint32Array;
};

/**
 * Packs sequences that begin with the same `prefixLength` tokens, which is not checked. Throws a
 * `RangeError` for a target without a token before it, and for a sequence without a token after the
 * prefix.
 */
export function packSequences(
  sequences: readonly TrainingSequence[],
  options: { readonly prefixLength?: number } = {},
): PackedBatch {
  const { prefixLength = 0 } = options;
  const lengths = sequences.map(({ tokens }) => tokens.length - prefixLength);
  if (lengths.some((length) => length < 1)) {
    throw new RangeError(`Cannot pack a batch: a sequence has no tokens beyond the shared prefix of ${prefixLength}.`);
  }
  const total = lengths.reduce((sum, length) => sum + length, prefixLength);
  const allTokens = new Uint32Array(total);
  const positions = new Uint32Array(total);
  const requested: number[] = [];
  const rows: number[] = [];
  /** Start of the sequence if it included the prefix, which only the first one does. */
  let start = 0;
  for (const { tokens, targets } of sequences) {
    for (let place = start === 0 ? 0 : prefixLength; place < tokens.length; place++) {
      allTokens[start + place] = tokens[place]!;
      positions[start + place] = place;
    }
    for (const place of Array.from(targets)) {
      if (!(place >= 1 && place < tokens.length)) {
        throw new RangeError(`Cannot pack a batch: target ${place} is outside 1 to ${tokens.length - 1}.`);
      }
      rows.push(place > prefixLength ? start + place - 1 : place - 1);
      requested.push(tokens[place]!);
    }
    start += tokens.length - prefixLength;
  }
  const outputRows = Uint32Array.from(new Set(rows)).sort();
  const places = new Map(Array.from(outputRows, (outputRow, index) => [outputRow, index]));
  const targetOutputs = Uint32Array.from(rows, (outputRow) => places.get(outputRow)!);
  const targets = Uint32Array.from(requested);
  return { tokens: allTokens, positions, prefixLength, lengths, outputRows, targets, targetOutputs };
}

export type Network = {
  readonly config: ModelConfig;
  readonly layout: ParameterLayout;
  readonly kernels: Kernels;
  /** The whole memory; index = pointer / 4. */
  readonly floats: Float32Array;
  readonly integers: Uint32Array;
  /** Pointers to arrays of one float for each parameter. */
  readonly weights: number;
  readonly operations: ReturnType<typeof forwardOperations>;
  readonly backwardPanels: number;
  readonly gradients: number;
  readonly buffers: TrainingBuffers;
};

/** A run of rows that attends to itself, and to the prefix unless it is the prefix. */
type Segment = {
  readonly start: number;
  readonly length: number;
  readonly prefix: number;
  /** The rows of the segment that predict something, as a range of the batch's `outputRows`. */
  readonly outputStart: number;
  readonly outputCount: number;
};

/** The prefix, if there is one, and then each sequence. */
export function segmentsOf({ prefixLength, lengths, outputRows }: PackedBatch): Segment[] {
  const segments: Segment[] = [];
  let start = 0;
  let outputStart = 0;
  const add = (length: number, prefix: number): void => {
    let outputCount = 0;
    while (outputRows[outputStart + outputCount]! < start + length) outputCount += 1;
    segments.push({ start, length, prefix, outputStart, outputCount });
    start += length;
    outputStart += outputCount;
  };
  if (prefixLength > 0) add(prefixLength, 0);
  for (const length of lengths) add(length, prefixLength);
  return segments;
}

/**
 * Inputs of a pass of one layer. `count` rows have queries, and everything computed from them:
 * every row, but in the last layer only those that predict something. The others contribute only
 * their keys and values there.
 */
export function layerPass({ config, layout, buffers }: Network, { tokens, outputRows }: PackedBatch, layer: number) {
  const parts = { weights: layout.layers[layer]!, kept: buffers.layers[layer]!, rows: tokens.length };
  if (layer < config.layers - 1) {
    const { positions, visible, gradient: outputGradient } = buffers;
    return { ...parts, count: tokens.length, isPicked: false, positions, visible, outputGradient };
  }
  const { outputPositions: positions, outputVisible: visible, outputGradient } = buffers;
  return { ...parts, count: outputRows.length, isPicked: true, positions, visible, outputGradient };
}

/** The queries of a segment among those of {@link layerPass}. */
export function queriesOf(segment: Segment, isPicked: boolean): { readonly first: number; readonly count: number } {
  return isPicked
    ? { first: segment.outputStart, count: segment.outputCount }
    : { first: segment.start, count: segment.length };
}

/**
 * Packs keys and values of a segment for attention, head by head; `backward` adds those that only
 * the backward pass reads.
 */
export function packSegment(
  network: Network,
  batch: PackedBatch,
  segment: Segment,
  kept: { readonly keys: number; readonly values: number; readonly backward: boolean },
): void {
  const { config, kernels, buffers } = network;
  const { headSize, keyValueHeads } = config;
  const { start, length } = segment;
  const width = keyValueHeads * headSize;
  const isPrefix = start === 0 && batch.prefixLength > 0;
  for (const panels of isPrefix ? [buffers.own, buffers.prefix] : [buffers.own]) {
    for (let head = 0; head < keyValueHeads; head++) {
      const source = (start * width + head * headSize) * 4;
      const target = head * paddedRows(length) * headSize * 4;
      kernels.packColumns(kept.keys + source, width, headSize, length, panels.keys + target);
      if (kept.backward) {
        kernels.packColumns(kept.values + source, width, headSize, length, panels.valueColumns + target);
        packPadded(network, kept.keys + source, panels.keyRows + target, length);
      } else {
        packPadded(network, kept.values + source, panels.values + target, length);
      }
    }
  }
}

function paddedRows(length: number): number {
  return Math.ceil(length / 8) * 8;
}

/**
 * Rows that a segment lacks up to a multiple of 8 must be zero: probability 0 times garbage could
 * be NaN.
 */
function packPadded(network: Network, source: number, target: number, length: number): void {
  const { config, kernels, floats } = network;
  const { headSize, keyValueHeads } = config;
  const padded = paddedRows(length);
  for (let column = 0; column < headSize; column += 8) {
    const panel = target + column * padded * 4;
    kernels.packRows(source + column * 4, keyValueHeads * headSize, length, 8, panel);
    floats.fill(0, panel / 4 + length * 8, panel / 4 + padded * 8);
  }
}
