// One pass of the network over some sequences: what the loss is, and, when asked for, its gradients.

import { packSequences, type TrainingModel } from "../model/index.ts";
import { type LossOptions, tokenLoss } from "../token-loss.ts";
import type { PassOutcome, SequenceOutcome, ThreadPass } from "./thread-protocol.ts";

/** `loss`: gradients of it are added to the model's; `null`: logprobs alone are wanted. */
export function runPass(model: TrainingModel, pass: ThreadPass, loss: LossOptions | null): PassOutcome {
  const { sequences, prefixLength } = pass;
  const { logprobs, entropies } = model.forward(packSequences(sequences, { prefixLength }));
  const outcomes: SequenceOutcome[] = [];
  const slopes = new Float32Array(logprobs.length);
  const entropySlopes = new Float32Array(logprobs.length);
  const sums = { loss: 0, entropy: 0, kl: 0, clipped: 0 };
  let start = 0;
  for (const { targets, weights, advantages, sampledLogprobs, referenceLogprobs } of sequences) {
    const first = start;
    const end = first + targets.length;
    outcomes.push({ logprobs: logprobs.slice(first, end), entropies: entropies.slice(first, end) });
    start = end;
    if (loss === null) continue;
    for (let index = 0; index < targets.length; index++) {
      const [logprob, entropy, weight] = [logprobs[first + index]!, entropies[first + index]!, weights[index]!];
      const terms = {
        weight,
        advantage: advantages[index]!,
        sampledLogprob: sampledLogprobs?.[index] ?? logprob,
        referenceLogprob: referenceLogprobs?.[index] ?? logprob,
      };
      const token = tokenLoss(logprob, entropy, terms, loss);
      slopes[first + index] = token.slope;
      entropySlopes[first + index] = token.entropySlope;
      sums.loss += token.loss;
      sums.entropy += weight * entropy;
      sums.kl += weight * token.kl;
      sums.clipped += token.isClipped ? 1 : 0;
    }
  }
  if (loss !== null) model.backward(slopes, entropySlopes);
  return { outcomes, sums };
}
