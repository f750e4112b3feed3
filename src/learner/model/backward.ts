// The backward pass: from coefficients of logprobs and entropies to gradients of every parameter,
// which are added to the existing ones. Reads the buffers that the last forward pass kept, and
// overwrites some of them: one backward pass for each forward pass.

import { layerPass, type Network, packSegment, type PackedBatch, queriesOf, segmentsOf } from "./training-memory.ts";
import type { WeightMatrix } from "./parameter-layout.ts";

export function runBackward(network: Network, batch: PackedBatch): void {
  const { config, kernels, floats, buffers, layout } = network;
  const { hiddenSize, vocabularySize, layers } = config;
  const count = batch.targets.length;
  const outputs = batch.outputRows.length;
  const { logits, logSums, entropies, coefficients, entropyCoefficients, pickedGradient, normGradient } = buffers;
  const weighting = [coefficients, entropyCoefficients] as const;
  kernels.logProbabilitiesBackward(logits, count, vocabularySize, buffers.targets, logSums, entropies, ...weighting);
  projectBackward(network, count, buffers.picked, layout.embedding, logits, pickedGradient);
  floats.fill(0, normGradient / 4, normGradient / 4 + outputs * hiddenSize);
  kernels.scatterRows(pickedGradient, buffers.targetOutputs, count, hiddenSize, normGradient);
  const { gradient, outputGradient, finalScales } = buffers;
  const final = [buffers.hidden[layers]!, layout.finalNorm, finalScales] as const;
  normalizeBackward(network, normGradient, ...final, outputGradient, outputs, hiddenSize);
  for (let layer = layers - 1; layer >= 0; layer--) {
    runFeedForwardBackward(network, batch, layer);
    runAttentionBackward(network, batch, layer);
  }
  const embedding = network.gradients + layout.embedding.offset * 4;
  kernels.scatterRows(gradient, buffers.tokens, batch.tokens.length, hiddenSize, embedding);
}

/** Turns the gradient by the layer's output into the gradient by the output of attention. */
function runFeedForwardBackward(network: Network, batch: PackedBatch, layer: number): void {
  const { config, kernels, buffers } = network;
  const { hiddenSize, feedForwardSize } = config;
  const { weights, kept, count, outputGradient } = layerPass(network, batch, layer);
  const { innerGradient, gateUpGradient, normGradient } = buffers;
  projectBackward(network, count, kept.inner, weights.down, outputGradient, innerGradient);
  kernels.gateBackward(kept.gateUp, innerGradient, gateUpGradient, count, feedForwardSize);
  projectBackward(network, count, kept.feedForwardInput, weights.gateUp, gateUpGradient, normGradient);
  const norm = [kept.middle, weights.feedForwardNorm, kept.feedForwardScales] as const;
  normalizeBackward(network, normGradient, ...norm, outputGradient, count, hiddenSize, true);
}

/**
 * Turns the gradient by the output of attention into the gradient by the layer's input, in
 * `buffers.gradient`.
 */
function runAttentionBackward(network: Network, batch: PackedBatch, layer: number): void {
  const { config, kernels, floats, buffers } = network;
  const { hiddenSize, headSize, heads, keyValueHeads } = config;
  const { weights, kept, rows, count, isPicked, positions, outputGradient } = layerPass(network, batch, layer);
  const { gradient, attendedGradient, queryGradient, keyGradient, valueGradient, normGradient } = buffers;
  const keyFloats = (rows + 8) * keyValueHeads * headSize;

  projectBackward(network, count, kept.attended, weights.output, outputGradient, attendedGradient);
  // The kernel adds zeros up to 7 rows beyond the last.
  floats.fill(0, keyGradient / 4, keyGradient / 4 + keyFloats);
  floats.fill(0, valueGradient / 4, valueGradient / 4 + keyFloats);
  attendBackward(network, batch, layer);

  const { cosines, sines } = buffers;
  kernels.rotate(queryGradient, count, heads, headSize, positions, cosines, sines, 1);
  kernels.rotate(keyGradient, rows, keyValueHeads, headSize, buffers.positions, cosines, sines, 1);
  const queries = [kept.rawQueries, weights.queryNorm, kept.queryScales] as const;
  const keys = [kept.rawKeys, weights.keyNorm, kept.keyScales] as const;
  normalizeBackward(network, queryGradient, ...queries, queryGradient, count * heads, headSize);
  normalizeBackward(network, keyGradient, ...keys, keyGradient, rows * keyValueHeads, headSize);

  projectBackward(network, rows, kept.input, weights.key, keyGradient, normGradient);
  projectBackward(network, rows, kept.input, weights.value, valueGradient, normGradient, true);
  if (isPicked) {
    const { outputRows, pickedNormGradient } = buffers;
    projectBackward(network, count, kept.queryInput, weights.query, queryGradient, pickedNormGradient);
    kernels.scatterRows(pickedNormGradient, outputRows, count, hiddenSize, normGradient);
    floats.fill(0, gradient / 4, gradient / 4 + rows * hiddenSize);
    kernels.scatterRows(outputGradient, outputRows, count, hiddenSize, gradient);
  } else {
    projectBackward(network, count, kept.input, weights.query, queryGradient, normGradient, true);
  }
  const norm = [buffers.hidden[layer]!, weights.inputNorm, kept.inputScales] as const;
  normalizeBackward(network, normGradient, ...norm, gradient, rows, hiddenSize, true);
}

function attendBackward(network: Network, batch: PackedBatch, layer: number): void {
  const { config, kernels, buffers } = network;
  const { headSize, heads, keyValueHeads } = config;
  const { kept, isPicked, visible } = layerPass(network, batch, layer);
  const { own, prefix, keyGradient, valueGradient } = buffers;
  const panels = [own, prefix].flatMap(({ keys, keyRows, valueColumns }) => [keys, keyRows, valueColumns]);
  const working = [buffers.scores, buffers.slopes, buffers.scratch] as const;
  for (const segment of segmentsOf(batch)) {
    packSegment(network, batch, segment, { ...kept, backward: true });
    const { first, count } = queriesOf(segment, isPicked);
    const query = first * heads * headSize * 4;
    const key = segment.start * keyValueHeads * headSize * 4;
    const results = [kept.attended + query, kept.logSums + first * heads * 4] as const;
    const gradients = [buffers.attendedGradient + query, buffers.queryGradient + query] as const;
    const ownGradients = [keyGradient + key, valueGradient + key] as const;
    const extent = [count, visible + first * 4, segment.length, segment.prefix] as const;
    const shape = [heads, keyValueHeads, headSize] as const;
    const written = [...gradients, ...ownGradients, keyGradient, valueGradient] as const;
    kernels.attendBackward(kept.queries + query, ...panels, ...results, ...written, ...extent, ...shape, ...working);
  }
}

/** Adds to the gradient of a matrix and writes (or adds to) that of its input. */
function projectBackward(
  { kernels, backwardPanels, gradients, buffers }: Network,
  rows: number,
  x: number,
  { offset, outputs, inputs }: WeightMatrix,
  yGradient: number,
  xGradient: number,
  add = false,
): void {
  const { packed, scratch } = buffers;
  const panels = backwardPanels + offset * 4;
  kernels.multiply(rows, inputs, outputs, yGradient, outputs, panels, outputs, xGradient, inputs, add ? 1 : 0);
  kernels.packRows(x, inputs, rows, inputs, packed);
  const target = gradients + offset * 4;
  kernels.multiplyTransposed(outputs, inputs, rows, yGradient, outputs, packed, rows, target, inputs, scratch);
}

function normalizeBackward(
  { kernels, weights, gradients }: Network,
  yGradient: number,
  x: number,
  norm: number,
  scales: number,
  xGradient: number,
  rows: number,
  size: number,
  add = false,
): void {
  const pointers = [weights + norm * 4, scales, xGradient, gradients + norm * 4] as const;
  kernels.normalizeBackward(yGradient, x, ...pointers, rows, size, add ? 1 : 0);
}
