// The forward pass: tokens to logprobs of targets. Keeps the values that the backward pass needs.

import { layerPass, type Network, packSegment, type PackedBatch, queriesOf, segmentsOf } from "./training-memory.ts";

export function runForward(network: Network, batch: PackedBatch): void {
  const { config, kernels, buffers, layout } = network;
  const { hiddenSize, vocabularySize, layers } = config;
  const { normalize, project } = network.operations;
  writeRows(network, batch);
  const embedding = network.weights + layout.embedding.offset * 4;
  kernels.gatherRows(embedding, buffers.tokens, batch.tokens.length, hiddenSize, buffers.hidden[0]!);
  for (let layer = 0; layer < layers; layer++) {
    runAttention(network, batch, layer);
    runFeedForward(network, batch, layer);
  }
  const { final, picked, finalScales, logits, targets, logprobs, logSums, entropies } = buffers;
  const rows = batch.targets.length;
  normalize(buffers.hidden[layers]!, layout.finalNorm, final, finalScales, batch.outputRows.length, hiddenSize);
  kernels.gatherRows(final, buffers.targetOutputs, rows, hiddenSize, picked);
  project(rows, picked, layout.embedding, logits);
  kernels.logProbabilities(logits, rows, vocabularySize, targets, logprobs, logSums, entropies);
}

function writeRows({ integers, buffers }: Network, batch: PackedBatch): void {
  for (const name of ["tokens", "positions", "targets", "targetOutputs", "outputRows"] as const) {
    integers.set(batch[name], buffers[name] / 4);
  }
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
  const { normalize, project } = network.operations;
  const { weights, kept, rows, count, isPicked, positions } = layerPass(network, batch, layer);
  const hidden = buffers.hidden[layer]!;

  normalize(hidden, weights.inputNorm, kept.input, kept.inputScales, rows, hiddenSize);
  project(rows, kept.input, weights.key, kept.rawKeys);
  project(rows, kept.input, weights.value, kept.values);
  if (isPicked) kernels.gatherRows(kept.input, buffers.outputRows, count, hiddenSize, kept.queryInput);
  project(count, isPicked ? kept.queryInput : kept.input, weights.query, kept.rawQueries);
  normalize(kept.rawQueries, weights.queryNorm, kept.queries, kept.queryScales, count * heads, headSize);
  normalize(kept.rawKeys, weights.keyNorm, kept.keys, kept.keyScales, rows * keyValueHeads, headSize);
  const { cosines, sines } = buffers;
  kernels.rotate(kept.queries, count, heads, headSize, positions, cosines, sines, 0);
  kernels.rotate(kept.keys, rows, keyValueHeads, headSize, buffers.positions, cosines, sines, 0);
  attend(network, batch, layer);

  if (isPicked) kernels.gatherRows(hidden, buffers.outputRows, count, hiddenSize, kept.middle);
  else floats.copyWithin(kept.middle / 4, hidden / 4, hidden / 4 + rows * hiddenSize);
  project(count, kept.attended, weights.output, kept.middle, true);
}

function attend(network: Network, batch: PackedBatch, layer: number): void {
  const { config, kernels, buffers } = network;
  const { headSize, heads, keyValueHeads } = config;
  const { kept, isPicked, visible } = layerPass(network, batch, layer);
  const { own, prefix } = buffers;
  const panels = [own.keys, own.values, prefix.keys, prefix.values] as const;
  for (const segment of segmentsOf(batch)) {
    packSegment(network, batch, segment, { ...kept, backward: false });
    const { first, count } = queriesOf(segment, isPicked);
    const queries = first * heads * headSize * 4;
    const results = [kept.attended + queries, kept.logSums + first * heads * 4] as const;
    const extent = [count, visible + first * 4, segment.length, segment.prefix] as const;
    const shape = [heads, keyValueHeads, headSize] as const;
    kernels.attend(kept.queries + queries, ...panels, ...results, ...extent, ...shape, buffers.scores);
  }
}

function runFeedForward(network: Network, batch: PackedBatch, layer: number): void {
  const { config, kernels, floats, buffers } = network;
  const { hiddenSize, feedForwardSize } = config;
  const { normalize, project } = network.operations;
  const { weights, kept, count } = layerPass(network, batch, layer);
  const { middle, feedForwardInput, feedForwardScales, gateUp, inner } = kept;
  normalize(middle, weights.feedForwardNorm, feedForwardInput, feedForwardScales, count, hiddenSize);
  project(count, feedForwardInput, weights.gateUp, gateUp);
  kernels.gate(gateUp, inner, count, feedForwardSize);
  const next = buffers.hidden[layer + 1]!;
  floats.copyWithin(next / 4, middle / 4, middle / 4 + count * hiddenSize);
  project(count, inner, weights.down, next, true);
}
