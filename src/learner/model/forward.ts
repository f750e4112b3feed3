// The way forward: tokens to logprobs of targets, keeping what the way back needs.

import { type Network, packSegment, queriesOf, queryRowsOf, segmentsOf, type PackedBatch } from "./training-memory.ts";

export function runForward(network: Network, batch: PackedBatch): void {
  const { config, kernels, buffers, layout } = network;
  const { hiddenSize, vocabularySize, layers } = config;
  writeRows(network, batch);
  const embedding = network.weights + layout.embedding * 4;
  kernels.gatherRows(embedding, buffers.tokens, batch.tokens.length, hiddenSize, buffers.hidden[0]!);
  for (let layer = 0; layer < layers; layer++) {
    runAttention(network, batch, layer);
    runFeedForward(network, queryRowsOf(network, batch, layer).count, layer);
  }
  const { final, picked, finalScales } = buffers;
  const outputs = batch.outputRows.length;
  normalize(network, buffers.hidden[layers]!, layout.finalNorm, final, finalScales, outputs, hiddenSize);
  const rows = batch.targets.length;
  kernels.gatherRows(final, buffers.targetOutputs, rows, hiddenSize, picked);
  project(network, picked, layout.embedding, buffers.logits, { rows, inputs: hiddenSize, outputs: vocabularySize });
  const { logits, targets, logprobs, logSums, entropies } = buffers;
  kernels.logProbabilities(logits, rows, vocabularySize, targets, logprobs, logSums, entropies);
}

function writeRows({ integers, buffers }: Network, batch: PackedBatch): void {
  integers.set(batch.tokens, buffers.tokens / 4);
  integers.set(batch.positions, buffers.positions / 4);
  integers.set(batch.targets, buffers.targets / 4);
  integers.set(batch.targetOutputs, buffers.targetOutputs / 4);
  integers.set(batch.outputRows, buffers.outputRows / 4);
  for (const { start, length } of segmentsOf(batch)) {
    for (let index = 0; index < length; index++) integers[buffers.visible / 4 + start + index] = index + 1;
  }
  batch.outputRows.forEach((row, index) => {
    integers[buffers.outputPositions / 4 + index] = batch.positions[row]!;
    integers[buffers.outputVisible / 4 + index] = integers[buffers.visible / 4 + row]!;
  });
}

function runAttention(network: Network, batch: PackedBatch, layer: number): void {
  const { config, kernels, floats, buffers } = network;
  const { hiddenSize, headSize, heads, keyValueHeads } = config;
  const offsets = network.layout.layers[layer]!;
  const kept = buffers.layers[layer]!;
  const rows = batch.tokens.length;
  const { count, isPicked, positions } = queryRowsOf(network, batch, layer);
  const queryWidth = heads * headSize;
  const keyWidth = keyValueHeads * headSize;
  const hidden = buffers.hidden[layer]!;

  normalize(network, hidden, offsets.inputNorm, kept.input, kept.inputScales, rows, hiddenSize);
  project(network, kept.input, offsets.key, kept.rawKeys, { rows, inputs: hiddenSize, outputs: keyWidth });
  project(network, kept.input, offsets.value, kept.values, { rows, inputs: hiddenSize, outputs: keyWidth });
  if (isPicked) kernels.gatherRows(kept.input, buffers.outputRows, count, hiddenSize, kept.queryInput);
  const input = isPicked ? kept.queryInput : kept.input;
  project(network, input, offsets.query, kept.rawQueries, { rows: count, inputs: hiddenSize, outputs: queryWidth });
  normalize(network, kept.rawQueries, offsets.queryNorm, kept.queries, kept.queryScales, count * heads, headSize);
  normalize(network, kept.rawKeys, offsets.keyNorm, kept.keys, kept.keyScales, rows * keyValueHeads, headSize);
  const { cosines, sines } = buffers;
  kernels.rotate(kept.queries, count, heads, headSize, positions, cosines, sines, 0);
  kernels.rotate(kept.keys, rows, keyValueHeads, headSize, buffers.positions, cosines, sines, 0);
  attend(network, batch, layer);

  if (isPicked) kernels.gatherRows(hidden, buffers.outputRows, count, hiddenSize, kept.middle);
  else floats.copyWithin(kept.middle / 4, hidden / 4, hidden / 4 + rows * hiddenSize);
  const shape = { rows: count, inputs: queryWidth, outputs: hiddenSize };
  project(network, kept.attended, offsets.output, kept.middle, shape, true);
}

function attend(network: Network, batch: PackedBatch, layer: number): void {
  const { config, kernels, buffers } = network;
  const { headSize, heads, keyValueHeads } = config;
  const kept = buffers.layers[layer]!;
  const { isPicked, visible } = queryRowsOf(network, batch, layer);
  const { own, prefix } = buffers;
  for (const segment of segmentsOf(batch)) {
    const from = { keys: kept.keys, values: kept.values, backward: false };
    packSegment(network, segment, { ...from, panels: own });
    if (segment.start === 0 && batch.prefixLength > 0) packSegment(network, segment, { ...from, panels: prefix });
    const { first, count } = queriesOf(segment, isPicked);
    kernels.attend(
      kept.queries + first * heads * headSize * 4,
      own.keys,
      own.values,
      prefix.keys,
      prefix.values,
      kept.attended + first * heads * headSize * 4,
      kept.logSums + first * heads * 4,
      count,
      visible + first * 4,
      segment.length,
      segment.prefix,
      heads,
      keyValueHeads,
      headSize,
      buffers.scores,
    );
  }
}

function runFeedForward(network: Network, rows: number, layer: number): void {
  const { config, kernels, floats, buffers } = network;
  const { hiddenSize, feedForwardSize } = config;
  const offsets = network.layout.layers[layer]!;
  const kept = buffers.layers[layer]!;
  const input = kept.feedForwardInput;
  normalize(network, kept.middle, offsets.feedForwardNorm, input, kept.feedForwardScales, rows, hiddenSize);
  project(network, input, offsets.gateUp, kept.gateUp, { rows, inputs: hiddenSize, outputs: 2 * feedForwardSize });
  kernels.gate(kept.gateUp, kept.inner, rows, feedForwardSize);
  const next = buffers.hidden[layer + 1]!;
  floats.copyWithin(next / 4, kept.middle / 4, kept.middle / 4 + rows * hiddenSize);
  project(network, kept.inner, offsets.down, next, { rows, inputs: feedForwardSize, outputs: hiddenSize }, true);
}

function normalize(
  { kernels, weights, config }: Network,
  x: number,
  weight: number,
  y: number,
  scales: number,
  rows: number,
  size: number,
): void {
  kernels.normalize(x, weights + weight * 4, y, scales, rows, size, config.normEpsilon);
}

/** y[rows][outputs] = x[rows][inputs] * transposed weights, or y += that. */
function project(
  { kernels, forwardPanels }: Network,
  x: number,
  weight: number,
  y: number,
  shape: { readonly rows: number; readonly inputs: number; readonly outputs: number },
  accumulate = false,
): void {
  const { rows, inputs, outputs } = shape;
  kernels.multiply(
    rows,
    outputs,
    inputs,
    x,
    inputs,
    forwardPanels + weight * 4,
    inputs,
    y,
    outputs,
    accumulate ? 1 : 0,
  );
}
