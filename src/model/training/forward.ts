// The way forward: tokens to logprobs of targets, keeping what the way back needs.

import { packSegment, segmentsOf, type Network } from "./network.ts";
import type { PackedBatch } from "./packed-batch.ts";

export function runForward(network: Network, batch: PackedBatch): void {
  const { config, kernels, integers, buffers, layout } = network;
  const { hiddenSize, vocabularySize } = config;
  const rows = batch.tokens.length;
  integers.set(batch.tokens, buffers.tokens / 4);
  integers.set(batch.positions, buffers.positions / 4);
  kernels.gatherRows(network.weights + layout.embedding * 4, buffers.tokens, rows, hiddenSize, buffers.hidden[0]!);
  for (let layer = 0; layer < config.layers; layer++) {
    runAttention(network, batch, layer);
    runFeedForward(network, rows, layer);
  }
  const { final, picked, targetRows } = buffers;
  normalize(network, buffers.hidden[config.layers]!, layout.finalNorm, final, buffers.finalScales, rows, hiddenSize);

  const count = batch.targets.length;
  integers.set(batch.rows, targetRows / 4);
  integers.set(batch.targets, buffers.targets / 4);
  kernels.gatherRows(final, targetRows, count, hiddenSize, picked);
  project(network, picked, layout.embedding, buffers.logits, {
    rows: count,
    inputs: hiddenSize,
    outputs: vocabularySize,
  });
  const { logits, targets, logprobs, logSums, entropies } = buffers;
  kernels.logProbabilities(logits, count, vocabularySize, targets, logprobs, logSums, entropies);
}

function runAttention(network: Network, batch: PackedBatch, layer: number): void {
  const { config, kernels, floats, buffers } = network;
  const { hiddenSize, headSize, heads, keyValueHeads } = config;
  const offsets = network.layout.layers[layer]!;
  const kept = buffers.layers[layer]!;
  const rows = batch.tokens.length;
  const queryWidth = heads * headSize;
  const keyWidth = keyValueHeads * headSize;
  const hidden = buffers.hidden[layer]!;

  normalize(network, hidden, offsets.inputNorm, kept.input, kept.inputScales, rows, hiddenSize);
  project(network, kept.input, offsets.query, kept.rawQueries, { rows, inputs: hiddenSize, outputs: queryWidth });
  project(network, kept.input, offsets.key, kept.rawKeys, { rows, inputs: hiddenSize, outputs: keyWidth });
  project(network, kept.input, offsets.value, kept.values, { rows, inputs: hiddenSize, outputs: keyWidth });
  normalize(network, kept.rawQueries, offsets.queryNorm, kept.queries, kept.queryScales, rows * heads, headSize);
  normalize(network, kept.rawKeys, offsets.keyNorm, kept.keys, kept.keyScales, rows * keyValueHeads, headSize);
  const { positions, cosines, sines } = buffers;
  kernels.rotate(kept.queries, rows, heads, headSize, positions, cosines, sines, 0);
  kernels.rotate(kept.keys, rows, keyValueHeads, headSize, positions, cosines, sines, 0);

  const { own, prefix } = buffers;
  for (const segment of segmentsOf(batch)) {
    packSegment(network, segment, { keys: kept.keys, values: kept.values, panels: own, backward: false });
    if (segment.start === 0 && batch.prefixLength > 0) {
      packSegment(network, segment, { keys: kept.keys, values: kept.values, panels: prefix, backward: false });
    }
    kernels.attend(
      kept.queries + segment.start * queryWidth * 4,
      own.keys,
      own.values,
      prefix.keys,
      prefix.values,
      kept.attended + segment.start * queryWidth * 4,
      kept.logSums + segment.start * heads * 4,
      segment.length,
      segment.prefix,
      heads,
      keyValueHeads,
      headSize,
      buffers.scores,
    );
  }
  floats.copyWithin(kept.middle / 4, hidden / 4, hidden / 4 + rows * hiddenSize);
  const shape = { rows, inputs: queryWidth, outputs: hiddenSize };
  project(network, kept.attended, offsets.output, kept.middle, shape, true);
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
