// A model that samples: token ids in, logits of the next token out, over a paged cache of keys and
// values. Rows of many sequences, prompts and single steps alike, go through the network together;
// the result of a row does not depend on the others. The engine decides which page belongs to which
// sequence, and samples from the logits.

import { Arena, instantiateKernels, type Kernels, type CompiledKernels, loadKernels } from "./kernels.ts";
import type { ModelConfig } from "./model-config.ts";
import {
  fillRotaryTable,
  forwardOperations,
  type LayerLayout,
  packWeights,
  type ParameterLayout,
  parameterLayout,
} from "./parameter-layout.ts";

/** Tokens per page; the kernels have the same constant. */
export const pageTokens = 16;

export type DecoderOptions = {
  readonly config: ModelConfig;
  /** All parameters, as `parameterLayout` orders them; copied. */
  readonly weights: Float32Array;
  /** Maximum number of rows of one run. */
  readonly maxRows: number;
  /** Maximum number of sequences that have a table of pages at a time. */
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
  readonly #operations: ReturnType<typeof forwardOperations>;
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
    this.#maxRows = maxRows;
    const arena = new Arena(memory);
    this.#buffers = allocateDecoder(arena, config, { maxRows, maxSequences, pages, parameters: this.#layout.size });
    const { floats, integers } = arena.seal();
    this.#floats = floats;
    this.#integers = integers;
    const { weights: copy, panels, cosines, sines, angles } = this.#buffers;
    this.#operations = forwardOperations(kernels, { weights: copy, panels, epsilon: config.normEpsilon });
    fillRotaryTable(config, this.#view(cosines, angles), this.#view(sines, angles));
    this.setWeights(weights);
  }

  /**
   * Replaces the weights; the cache still holds results of the old ones. Throws a `RangeError` for
   * another shape.
   */
  setWeights(weights: Float32Array): void {
    const { size } = this.#layout;
    if (weights.length !== size) {
      throw new RangeError(`Cannot load the weights: there are ${weights.length}, expected ${size}.`);
    }
    const { weights: copy, panels: forward } = this.#buffers;
    this.#view(copy, size).set(weights);
    packWeights(this.#kernels, this.#layout, { weights: copy, forward });
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

  /** Number of rows that the next run can still take. */
  get capacity(): number {
    return this.#maxRows - this.#rows;
  }

  /**
   * Adds a token to the next run, and returns its row. Its sequence's table must hold the page of
   * its position, and the cache, or earlier rows of the run, every position before it.
   */
  add(token: number, position: number, sequence: number): number {
    const row = this.#rows++;
    const { tokens, positions, rowTables, tables, tableLength } = this.#buffers;
    this.#integers[tokens / 4 + row] = token;
    this.#integers[positions / 4 + row] = position;
    this.#integers[rowTables / 4 + row] = tables + sequence * tableLength * 4;
    return row;
  }

  /**
   * Computes the rows that were added, and clears the list. `requested`: rows whose logits are
   * computed.
   */
  run(requested: ArrayLike<number>): void {
    const { hiddenSize } = this.config;
    const { gatherRows } = this.#kernels;
    const { embedding, layers, finalNorm } = this.#layout;
    const { weights, tokens, hidden, normed, logits, scales, requested: requestedRows } = this.#buffers;
    const rows = this.#rows;
    this.#rows = 0;
    gatherRows(weights + embedding.offset * 4, tokens, rows, hiddenSize, hidden);
    for (const [index, layer] of layers.entries()) {
      this.#attend(layer, index, rows);
      this.#feedForward(layer, rows);
    }
    const count = requested.length;
    if (count === 0) return;
    this.#integers.set(requested, requestedRows / 4);
    gatherRows(hidden, requestedRows, count, hiddenSize, normed);
    this.#operations.normalize(normed, finalNorm, normed, scales, count, hiddenSize);
    this.#operations.project(count, normed, embedding, logits);
  }

  /** Logits of the n-th requested row of the last run; a view that the next run overwrites. */
  logits(index: number): Float32Array {
    const { vocabularySize } = this.config;
    return this.#view(this.#buffers.logits + index * vocabularySize * 4, vocabularySize);
  }

  /** Replaces the same logits by e^((logit - highest) * inverseTemperature); returns their sum. */
  temper(index: number, inverseTemperature: number): number {
    const { vocabularySize } = this.config;
    const row = this.#buffers.logits + index * vocabularySize * 4;
    return this.#kernels.temper(row, vocabularySize, inverseTemperature);
  }

  #attend(layer: LayerLayout, index: number, rows: number): void {
    const { hiddenSize, headSize, heads, keyValueHeads } = this.config;
    const { hidden, normed, queries, keys, values, attended, positions, cosines, sines, scales, ...rest } =
      this.#buffers;
    const { normalize, project } = this.#operations;
    normalize(hidden, layer.inputNorm, normed, scales, rows, hiddenSize);
    project(rows, normed, layer.query, queries);
    project(rows, normed, layer.key, keys);
    project(rows, normed, layer.value, values);
    normalize(queries, layer.queryNorm, queries, scales, rows * heads, headSize);
    normalize(keys, layer.keyNorm, keys, scales, rows * keyValueHeads, headSize);
    this.#kernels.rotate(queries, rows, heads, headSize, positions, cosines, sines, 0);
    this.#kernels.rotate(keys, rows, keyValueHeads, headSize, positions, cosines, sines, 0);
    const arrays = [queries, keys, values, attended] as const;
    const cached = [rest.rowTables, positions, rest.cache + index * rest.layerFloats * 4] as const;
    this.#kernels.attendCached(...arrays, rows, ...cached, heads, keyValueHeads, headSize, rest.scores);
    project(rows, attended, layer.output, hidden, true);
  }

  #feedForward(layer: LayerLayout, rows: number): void {
    const { hiddenSize, feedForwardSize } = this.config;
    const { hidden, normed, gateUp, inner, scales } = this.#buffers;
    const { normalize, project } = this.#operations;
    normalize(hidden, layer.feedForwardNorm, normed, scales, rows, hiddenSize);
    project(rows, normed, layer.gateUp, gateUp);
    this.#kernels.gate(gateUp, inner, rows, feedForwardSize);
    project(rows, inner, layer.down, hidden, true);
  }

  #view(pointer: number, count: number): Float32Array {
    return this.#floats.subarray(pointer / 4, pointer / 4 + count);
  }
}

type DecoderBuffers = ReturnType<typeof allocateDecoder>;

function allocateDecoder(
  arena: Arena,
  config: ModelConfig,
  sizes: Pick<DecoderOptions, "maxRows" | "maxSequences" | "pages"> & { readonly parameters: number },
) {
  const { hiddenSize, headSize, heads, keyValueHeads, feedForwardSize, contextLength } = config;
  const { maxRows, maxSequences, pages, parameters } = sizes;
  const tableLength = Math.ceil(contextLength / pageTokens);
  const angles = (contextLength * headSize) / 2;
  // Keys and values of a page in one layer.
  const pageFloats = pageTokens * 2 * keyValueHeads * headSize;
  const layerFloats = pages * pageFloats;
  return {
    tableLength,
    angles,
    pageFloats,
    layerFloats,
    ...arena.allocateEach(["weights", "panels"], parameters),
    ...arena.allocateEach(["cosines", "sines"], angles),
    cache: arena.allocate(config.layers * layerFloats),
    tables: arena.allocate(maxSequences * tableLength),
    ...arena.allocateEach(["tokens", "positions", "rowTables", "requested"], maxRows),
    ...arena.allocateEach(["hidden", "normed"], maxRows * hiddenSize),
    scales: arena.allocate(maxRows * heads),
    ...arena.allocateEach(["queries", "attended"], maxRows * heads * headSize),
    ...arena.allocateEach(["keys", "values"], maxRows * keyValueHeads * headSize),
    gateUp: arena.allocate(maxRows * 2 * feedForwardSize),
    inner: arena.allocate(maxRows * feedForwardSize),
    logits: arena.allocate(maxRows * config.vocabularySize),
    scores: arena.allocate(2 * tableLength * pageTokens),
  };
}
