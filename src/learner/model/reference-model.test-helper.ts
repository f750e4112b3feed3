// Qwen3 written as plainly as possible: one sequence, doubles, loops. The reference for kernels and
// gradients; slow.

import type { ModelConfig } from "./model-config.ts";
import { parameterLayout, type WeightMatrix } from "./parameter-layout.ts";

type Vector = Float64Array<ArrayBuffer>;

/** Log-probabilities of every token of the vocabulary after each token of the sequence: [tokens][vocabulary]. */
export function referenceLogprobs(config: ModelConfig, weights: Vector, tokens: ArrayLike<number>): readonly Vector[] {
  const layout = parameterLayout(config);
  const { hiddenSize, headSize, heads, keyValueHeads, feedForwardSize, normEpsilon } = config;
  const norm = (x: Vector, weight: number): Vector => {
    const mean = x.reduce((sum, value) => sum + value * value, 0) / x.length;
    return x.map((value, index) => (value / Math.sqrt(mean + normEpsilon)) * weights[weight + index]!);
  };
  const project = (x: Vector, { offset, outputs }: WeightMatrix): Vector => {
    const y = new Float64Array(outputs);
    let at = offset;
    for (let output = 0; output < outputs; output++) {
      let sum = 0;
      for (let input = 0; input < x.length; input++) sum += x[input]! * weights[at++]!;
      y[output] = sum;
    }
    return y;
  };
  const add = (a: Vector, b: Vector): Vector => a.map((value, index) => value + b[index]!);

  let hidden = Array.from({ length: tokens.length }, (_, place) => {
    const row = layout.embedding.offset + tokens[place]! * hiddenSize;
    return weights.slice(row, row + hiddenSize);
  });
  for (const layer of layout.layers) {
    const inputs = hidden.map((x) => norm(x, layer.inputNorm));
    const split = (x: Vector, count: number): Vector[] =>
      Array.from({ length: count }, (_, head) => x.slice(head * headSize, (head + 1) * headSize));
    const queries = inputs.map((x, place) =>
      split(project(x, layer.query), heads).map((head) => rotate(norm(head, layer.queryNorm), place, config)),
    );
    const keys = inputs.map((x, place) =>
      split(project(x, layer.key), keyValueHeads).map((head) => rotate(norm(head, layer.keyNorm), place, config)),
    );
    const values = inputs.map((x) => split(project(x, layer.value), keyValueHeads));
    hidden = hidden.map((x, place) => {
      const attended = new Float64Array(heads * headSize);
      queries[place]!.forEach((query, head) => {
        const shared = Math.floor((head * keyValueHeads) / heads);
        const scores = keys.slice(0, place + 1).map((key) => dot(query, key[shared]!) / Math.sqrt(headSize));
        const logSum = logSumOfExponentials(scores);
        scores.forEach((score, from) => {
          const weight = Math.exp(score - logSum);
          const value = values[from]![shared]!;
          for (let index = 0; index < headSize; index++) attended[head * headSize + index]! += weight * value[index]!;
        });
      });
      return add(x, project(attended, layer.output));
    });
    hidden = hidden.map((x) => {
      const both = project(norm(x, layer.feedForwardNorm), layer.gateUp);
      const inner = both
        .slice(0, feedForwardSize)
        .map((gate, index) => (gate / (1 + Math.exp(-gate))) * both[feedForwardSize + index]!);
      return add(x, project(inner, layer.down));
    });
  }
  return hidden.map((x) => {
    const logits = project(norm(x, layout.finalNorm), layout.embedding);
    const logSum = logSumOfExponentials(logits);
    return logits.map((logit) => logit - logSum);
  });
}

function rotate(x: Vector, place: number, { headSize, ropeTheta }: ModelConfig): Vector {
  const half = headSize / 2;
  return x.map((value, index) => {
    const angle = place * ropeTheta ** ((-2 * (index % half)) / headSize);
    const other = index < half ? -x[index + half]! : x[index - half]!;
    return value * Math.cos(angle) + other * Math.sin(angle);
  });
}

function dot(a: Vector, b: Vector): number {
  let sum = 0;
  for (let index = 0; index < a.length; index++) sum += a[index]! * b[index]!;
  return sum;
}

function logSumOfExponentials(values: ArrayLike<number>): number {
  let highest = -Infinity;
  for (let index = 0; index < values.length; index++) highest = Math.max(highest, values[index]!);
  let sum = 0;
  for (let index = 0; index < values.length; index++) sum += Math.exp(values[index]! - highest);
  return highest + Math.log(sum);
}
