// A model that speaks: token ids in, logits of the next token out, over a paged cache of keys and values. Rows of many
// sequences, prompts and single steps alike, go through the network together; what a row gets does not depend on the
// others. Which page belongs to whom, and what is sampled from logits, is for the engine to say.

import { Arena, instantiateKernels, type Kernels, type CompiledKernels, loadKernels } from "./kernels.ts";
import type { ModelConfig } from "./model-config.ts";
import {
  type LayerOffsets,
  type ParameterLayout,
  parameterLayout,
  packForward,
  type WeightMatrix,
  weightMatrices,
  fillRotaryTable,
} from "./parameter-layout.ts";

/** Tokens of a page; the kernels know it too. */
export const pageTokens = 16;

export type DecoderOptions = {
  readonly config: ModelConfig;
  /** All parameters, as `parameterLayout` orders them; copied. */
  readonly weights: Float32Array;
  /** Most rows of one run. */
  readonly maxRows: number;
  /** Most sequences that have a table of pages at a time. */
  readonly maxSequences: number;
  /** Pages of the cache, shared by all sequences. */
  readonly pages: number;
  /** Default: the best build for this host. */
  readonly kernels?: CompiledKernels;
};

export class Decoder {
  readonly config: ModelConfig;
  readonly #layout: ParameterLayout;
  readonly #kernels: Kernels;
  readonly #matrices: readonly WeightMatrix[];
  readonly #buffers: DecoderBuffers;
  readonly #floats: Float32Array;
  readonly #integers: Uint32Array;
  readonly #maxRows: number;
  #rows = 0;

  /** Throws a `RangeError` for weights of another shape, or a cache that does not fit into memory. */
  constructor(options: DecoderOptions) {
    const { config, weights, maxRows, maxSequences, pages } = options;
    const { kernels, memory } = instantiateKernels((options.kernels ?? loadKernels()).module);
    this.config = config;
    this.#layout = parameterLayout(config);
    this.#kernels = kernels;
    this.#matrices = weightMatrices(config, this.#layout);
    this.#maxRows = maxRows;
    const arena = new Arena(memory);
    this.#buffers = allocateDecoder(arena, config, { maxRows, maxSequences, pages, parameters: this.#layout.size });
    const { floats, integers } = arena.seal();
    this.#floats = floats;
    this.#integers = integers;
    const { cosines, sines, angles } = this.#buffers;
    fillRotaryTable(config, this.#view(cosines, angles), this.#view(sines, angles));
    this.setWeights(weights);
  }

  /** Takes other weights; what the cache holds was made by the old ones. Throws a `RangeError` for another shape. */
  setWeights(weights: Float32Array): void {
    const { size } = this.#layout;
    if (weights.length !== size) {
      throw new RangeError(`Cannot take the weights: there are ${weights.length}, ${size} expected.`);
    }
    this.#view(this.#buffers.weights, size).set(weights);
    packForward(this.#kernels, this.#matrices, { weights: this.#buffers.weights, target: this.#buffers.panels });
  }

  /** The pages of a sequence, in the order of its tokens; written by the engine. */
  pageTable(sequence: number): Uint32Array {
    const { tables, tableLength } = this.#buffers;
    const start = tables / 4 + sequence * tableLength;
    return this.#integers.subarray(start, start + tableLength);
  }

  copyPage(from: number, to: number): void {
    const { cache, pageFloats, layerFloats } = this.#buffers;
    for (let layer = 0; layer < this.config.layers; layer++) {
      const start = cache / 4 + layer * layerFloats;
      this.#floats.copyWithin(start + to * pageFloats, start + from * pageFloats, start + (from + 1) * pageFloats);
    }
  }

  /** Rows that the next run still has room for. */
  get room(): number {
    return this.#maxRows - this.#rows;
  }

  /**
   * Adds a token to the next run, and says which row it is. Its sequence's table must hold the page of its position, and the
   * cache, or earlier rows of the run, every position before it.
   */
  add(token: number, position: number, sequence: number): number {
    const row = this.#rows++;
    const { tokens, positions, rowTables, tables, tableLength } = this.#buffers;
    this.#integers[tokens / 4 + row] = token;
    this.#integers[positions / 4 + row] = position;
    this.#integers[rowTables / 4 + row] = tables + sequence * tableLength * 4;
    return row;
  }

  /** Computes what was added and forgets the list. `requested`: rows whose logits are computed. */
  run(requested: ArrayLike<number>): void {
    const { config } = this;
    const kernels = this.#kernels;
    const buffers = this.#buffers;
    const rows = this.#rows;
    this.#rows = 0;
    const weight = (offset: number): number => buffers.weights + offset * 4;
    kernels.gatherRows(weight(this.#layout.embedding), buffers.tokens, rows, config.hiddenSize, buffers.hidden);
    for (const [index, layer] of this.#layout.layers.entries()) {
      this.#attend(layer, index, rows);
      this.#feedForward(layer, rows);
    }
    const count = requested.length;
    if (count === 0) return;
    const { hiddenSize, vocabularySize } = config;
    this.#integers.set(requested, buffers.requested / 4);
    kernels.gatherRows(buffers.hidden, buffers.requested, count, hiddenSize, buffers.normed);
    this.#normalize(buffers.normed, this.#layout.finalNorm, buffers.normed, count, hiddenSize);
    this.#project(buffers.normed, this.#layout.embedding, buffers.logits, count, hiddenSize, vocabularySize, false);
  }

  /** Logits of the n-th requested row of the last run; a view that the next run overwrites. */
  logits(index: number): Float32Array {
    const { vocabularySize } = this.config;
    return this.#view(this.#buffers.logits + index * vocabularySize * 4, vocabularySize);
  }

  /** The same logits become e^((logit - highest) * inverseTemperature); returns their sum. */
  temper(index: number, inverseTemperature: number): number {
    const { vocabularySize } = this.config;
    const row = this.#buffers.logits + index * vocabularySize * 4;
    return this.#kernels.temper(row, vocabularySize, inverseTemperature);
  }

  #attend(layer: LayerOffsets, index: number, rows: number): void {
    const { hiddenSize, headSize, heads, keyValueHeads } = this.config;
    const { hidden, normed, queries, keys, values, attended, positions, cosines, sines, ...rest } = this.#buffers;
    const queryWidth = heads * headSize;
    const keyWidth = keyValueHeads * headSize;
    this.#normalize(hidden, layer.inputNorm, normed, rows, hiddenSize);
    this.#project(normed, layer.query, queries, rows, hiddenSize, queryWidth, false);
    this.#project(normed, layer.key, keys, rows, hiddenSize, keyWidth, false);
    this.#project(normed, layer.value, values, rows, hiddenSize, keyWidth, false);
    this.#normalize(queries, layer.queryNorm, queries, rows * heads, headSize);
    this.#normalize(keys, layer.keyNorm, keys, rows * keyValueHeads, headSize);
    this.#kernels.rotate(queries, rows, heads, headSize, positions, cosines, sines, 0);
    this.#kernels.rotate(keys, rows, keyValueHeads, headSize, positions, cosines, sines, 0);
    const cache = rest.cache + index * rest.layerFloats * 4;
    const { rowTables, scores } = rest;
    this.#kernels.attendCached(
      queries,
      keys,
      values,
      attended,
      rows,
      rowTables,
      positions,
      cache,
      heads,
      keyValueHeads,
      headSize,
      scores,
    );
    this.#project(attended, layer.output, hidden, rows, queryWidth, hiddenSize, true);
  }

  #feedForward(layer: LayerOffsets, rows: number): void {
    const { hiddenSize, feedForwardSize } = this.config;
    const { hidden, normed, gateUp, inner } = this.#buffers;
    this.#normalize(hidden, layer.feedForwardNorm, normed, rows, hiddenSize);
    this.#project(normed, layer.gateUp, gateUp, rows, hiddenSize, 2 * feedForwardSize, false);
    this.#kernels.gate(gateUp, inner, rows, feedForwardSize);
    this.#project(inner, layer.down, hidden, rows, feedForwardSize, hiddenSize, true);
  }

  #normalize(x: number, weight: number, y: number, rows: number, size: number): void {
    const { weights, scales } = this.#buffers;
    this.#kernels.normalize(x, weights + weight * 4, y, scales, rows, size, this.config.normEpsilon);
  }

  #project(x: number, weight: number, y: number, rows: number, inputs: number, outputs: number, add: boolean): void {
    const panels = this.#buffers.panels + weight * 4;
    this.#kernels.multiply(rows, outputs, inputs, x, inputs, panels, inputs, y, outputs, add ? 1 : 0);
  }

  #view(pointer: number, count: number): Float32Array {
    return this.#floats.subarray(pointer / 4, pointer / 4 + count);
  }
}

type DecoderBuffers = ReturnType<typeof allocateDecoder>;

function allocateDecoder(
  arena: Arena,
  config: ModelConfig,
  sizes: {
    readonly maxRows: number;
    readonly maxSequences: number;
    readonly pages: number;
    readonly parameters: number;
  },
) {
  const { hiddenSize, headSize, heads, keyValueHeads, feedForwardSize, contextLength } = config;
  const { maxRows, maxSequences, pages, parameters } = sizes;
  const rowsOf = (width: number): number => arena.allocate(maxRows * width);
  const tableLength = Math.ceil(contextLength / 16);
  const angles = (contextLength * headSize) / 2;
  // Keys and values of 16 tokens in one layer.
  const pageFloats = 16 * 2 * keyValueHeads * headSize;
  const layerFloats = pages * pageFloats;
  return {
    tableLength,
    angles,
    pageFloats,
    layerFloats,
    weights: arena.allocate(parameters),
    panels: arena.allocate(parameters),
    cosines: arena.allocate(angles),
    sines: arena.allocate(angles),
    cache: arena.allocate(config.layers * layerFloats),
    tables: arena.allocate(maxSequences * tableLength),
    tokens: rowsOf(1),
    positions: rowsOf(1),
    rowTables: rowsOf(1),
    requested: rowsOf(1),
    hidden: rowsOf(hiddenSize),
    normed: rowsOf(hiddenSize),
    scales: rowsOf(heads),
    queries: rowsOf(heads * headSize),
    keys: rowsOf(keyValueHeads * headSize),
    values: rowsOf(keyValueHeads * headSize),
    attended: rowsOf(heads * headSize),
    gateUp: rowsOf(2 * feedForwardSize),
    inner: rowsOf(feedForwardSize),
    logits: rowsOf(config.vocabularySize),
    scores: arena.allocate(2 * tableLength * 16),
  };
}
