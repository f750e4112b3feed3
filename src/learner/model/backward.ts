// The way back: from coefficients of logprobs and entropies to gradients of every parameter, which are added to what is
// there. Reads what the last way forward kept, and uses some of it up: forward, then back, once.

import { type Network, packSegment, queriesOf, queryRowsOf, segmentsOf, type PackedBatch } from "./training-memory.ts";

export function runBackward(network: Network, batch: PackedBatch): void {
  const { config, kernels, floats, buffers, layout } = network;
  const { hiddenSize, vocabularySize, layers } = config;
  const count = batch.targets.length;
  const outputs = batch.outputRows.length;
  const { logits, logSums, entropies, coefficients, entropyCoefficients, pickedGradient, normGradient } = buffers;
  const weighting = [coefficients, entropyCoefficients] as const;
  kernels.logProbabilitiesBackward(logits, count, vocabularySize, buffers.targets, logSums, entropies, ...weighting);
  const shape = { rows: count, inputs: hiddenSize, outputs: vocabularySize };
  projectBackward(network, buffers.picked, layout.embedding, logits, pickedGradient, shape);
  floats.fill(0, normGradient / 4, normGradient / 4 + outputs * hiddenSize);
  kernels.scatterRows(pickedGradient, buffers.targetOutputs, count, hiddenSize, normGradient);
  const { gradient, outputGradient, finalScales } = buffers;
  normalizeBackward(network, normGradient, buffers.hidden[layers]!, layout.finalNorm, finalScales, outputGradient, {
    rows: outputs,
    size: hiddenSize,
    accumulate: false,
  });
  for (let layer = layers - 1; layer >= 0; layer--) {
    runFeedForwardBackward(network, batch, layer);
    runAttentionBackward(network, batch, layer);
  }
  const embedding = network.gradients + layout.embedding * 4;
  kernels.scatterRows(gradient, buffers.tokens, batch.tokens.length, hiddenSize, embedding);
}

/** Where the gradient by a layer's output is, row for row with the queries of the layer. */
function outputGradientOf({ config, buffers }: Network, layer: number): number {
  return layer === config.layers - 1 ? buffers.outputGradient : buffers.gradient;
}

/** The gradient by the layer's output becomes that by what attention left. */
function runFeedForwardBackward(network: Network, batch: PackedBatch, layer: number): void {
  const { config, kernels, buffers } = network;
  const { hiddenSize, feedForwardSize } = config;
  const offsets = network.layout.layers[layer]!;
  const kept = buffers.layers[layer]!;
  const gradient = outputGradientOf(network, layer);
  const { count: rows } = queryRowsOf(network, batch, layer);
  const { innerGradient, gateUpGradient, normGradient } = buffers;
  const down = { rows, inputs: feedForwardSize, outputs: hiddenSize };
  projectBackward(network, kept.inner, offsets.down, gradient, innerGradient, down);
  kernels.gateBackward(kept.gateUp, innerGradient, gateUpGradient, rows, feedForwardSize);
  const gateUp = { rows, inputs: hiddenSize, outputs: 2 * feedForwardSize };
  projectBackward(network, kept.feedForwardInput, offsets.gateUp, gateUpGradient, normGradient, gateUp);
  const { feedForwardScales } = kept;
  normalizeBackward(network, normGradient, kept.middle, offsets.feedForwardNorm, feedForwardScales, gradient, {
    rows,
    size: hiddenSize,
    accumulate: true,
  });
}

/** The gradient by what attention left becomes that by the layer's input, in `buffers.gradient`. */
function runAttentionBackward(network: Network, batch: PackedBatch, layer: number): void {
  const { config, kernels, floats, buffers } = network;
  const { hiddenSize, headSize, heads, keyValueHeads } = config;
  const offsets = network.layout.layers[layer]!;
  const kept = buffers.layers[layer]!;
  const rows = batch.tokens.length;
  const { count, isPicked, positions } = queryRowsOf(network, batch, layer);
  const queryWidth = heads * headSize;
  const keyWidth = keyValueHeads * headSize;
  const { gradient, attendedGradient, queryGradient, keyGradient, valueGradient, normGradient } = buffers;

  const output = { rows: count, inputs: queryWidth, outputs: hiddenSize };
  projectBackward(network, kept.attended, offsets.output, outputGradientOf(network, layer), attendedGradient, output);
  // The kernel adds zeros up to 7 rows beyond the last.
  floats.fill(0, keyGradient / 4, keyGradient / 4 + (rows + 8) * keyWidth);
  floats.fill(0, valueGradient / 4, valueGradient / 4 + (rows + 8) * keyWidth);
  attendBackward(network, batch, layer);

  const { cosines, sines } = buffers;
  kernels.rotate(queryGradient, count, heads, headSize, positions, cosines, sines, 1);
  kernels.rotate(keyGradient, rows, keyValueHeads, headSize, buffers.positions, cosines, sines, 1);
  const queries = { rows: count * heads, size: headSize, accumulate: false };
  const keys = { rows: rows * keyValueHeads, size: headSize, accumulate: false };
  const { rawQueries, rawKeys, queryScales, keyScales } = kept;
  normalizeBackward(network, queryGradient, rawQueries, offsets.queryNorm, queryScales, queryGradient, queries);
  normalizeBackward(network, keyGradient, rawKeys, offsets.keyNorm, keyScales, keyGradient, keys);

  const toKeys = { rows, inputs: hiddenSize, outputs: keyWidth };
  projectBackward(network, kept.input, offsets.key, keyGradient, normGradient, toKeys);
  projectBackward(network, kept.input, offsets.value, valueGradient, normGradient, toKeys, true);
  const toQueries = { rows: count, inputs: hiddenSize, outputs: queryWidth };
  if (isPicked) {
    const { outputRows, outputGradient, pickedNormGradient } = buffers;
    projectBackward(network, kept.queryInput, offsets.query, queryGradient, pickedNormGradient, toQueries);
    kernels.scatterRows(pickedNormGradient, outputRows, count, hiddenSize, normGradient);
    floats.fill(0, gradient / 4, gradient / 4 + rows * hiddenSize);
    kernels.scatterRows(outputGradient, outputRows, count, hiddenSize, gradient);
  } else {
    projectBackward(network, kept.input, offsets.query, queryGradient, normGradient, toQueries, true);
  }
  const hidden = buffers.hidden[layer]!;
  normalizeBackward(network, normGradient, hidden, offsets.inputNorm, kept.inputScales, gradient, {
    rows,
    size: hiddenSize,
    accumulate: true,
  });
}

function attendBackward(network: Network, batch: PackedBatch, layer: number): void {
  const { config, kernels, buffers } = network;
  const { headSize, heads, keyValueHeads } = config;
  const kept = buffers.layers[layer]!;
  const { isPicked, visible } = queryRowsOf(network, batch, layer);
  const { own, prefix, keyGradient, valueGradient } = buffers;
  for (const segment of segmentsOf(batch)) {
    const from = { keys: kept.keys, values: kept.values, backward: true };
    packSegment(network, segment, { ...from, panels: own });
    if (segment.start === 0 && batch.prefixLength > 0) packSegment(network, segment, { ...from, panels: prefix });
    const { first, count } = queriesOf(segment, isPicked);
    const queryOffset = first * heads * headSize * 4;
    const keyOffset = segment.start * keyValueHeads * headSize * 4;
    kernels.attendBackward(
      kept.queries + queryOffset,
      own.keys,
      own.keyRows,
      own.valueColumns,
      prefix.keys,
      prefix.keyRows,
      prefix.valueColumns,
      kept.attended + queryOffset,
      kept.logSums + first * heads * 4,
      buffers.attendedGradient + queryOffset,
      buffers.queryGradient + queryOffset,
      keyGradient + keyOffset,
      valueGradient + keyOffset,
      keyGradient,
      valueGradient,
      count,
      visible + first * 4,
      segment.length,
      segment.prefix,
      heads,
      keyValueHeads,
      headSize,
      buffers.scores,
      buffers.slopes,
      buffers.scratch,
    );
  }
}

/** Adds to the gradient of a matrix and writes (or adds to) that of its input. */
function projectBackward(
  network: Network,
  x: number,
  weight: number,
  yGradient: number,
  xGradient: number,
  shape: { readonly rows: number; readonly inputs: number; readonly outputs: number },
  accumulate = false,
): void {
  const { kernels, backwardPanels, gradients, buffers } = network;
  const { rows, inputs, outputs } = shape;
  const { packed, scratch } = buffers;
  const panels = backwardPanels + weight * 4;
  const flag = accumulate ? 1 : 0;
  kernels.multiply(rows, inputs, outputs, yGradient, outputs, panels, outputs, xGradient, inputs, flag);
  kernels.packRows(x, inputs, rows, inputs, packed);
  const target = gradients + weight * 4;
  kernels.multiplyTransposed(outputs, inputs, rows, yGradient, outputs, packed, rows, target, inputs, scratch);
}

function normalizeBackward(
  { kernels, weights, gradients }: Network,
  yGradient: number,
  x: number,
  weight: number,
  scales: number,
  xGradient: number,
  shape: { readonly rows: number; readonly size: number; readonly accumulate: boolean },
): void {
  const { rows, size, accumulate } = shape;
  const [weights4, gradients4] = [weights + weight * 4, gradients + weight * 4];
  const flag = accumulate ? 1 : 0;
  kernels.normalizeBackward(yGradient, x, weights4, scales, xGradient, gradients4, rows, size, flag);
}
