// The memory of a decoder: weights, the cache of keys and values, and what one run works in. Pointers, and lengths in floats.

import type { Arena } from "./arena.ts";
import type { ModelConfig } from "./model-config.ts";

export type DecoderBuffers = ReturnType<typeof allocateDecoder>;

export function allocateDecoder(
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
    wanted: rowsOf(1),
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
