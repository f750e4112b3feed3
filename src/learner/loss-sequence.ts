// What the trainer is given: one sequence of tokens and what the loss takes of it. Not a sample: samples know rewards and
// masks, and `policy-rows.ts` and `cloning-rows.ts` make these of them.

export type LossSequence = {
  readonly tokens: Uint32Array;
  /** Places of the tokens that are in the loss; ascending, never 0. */
  readonly targets: Uint32Array;
  /** One per target: its share of the loss. They sum to 1 over a whole update where the loss is a mean over tokens. */
  readonly weights: Float32Array;
  /** One per target: above 0 makes it likelier, below 0 less likely. Cloning: 1. */
  readonly advantages: Float32Array;
  /** One per target, under the weights that sampled it. `null` where the loss has no clip. */
  readonly sampledLogprobs: Float32Array | null;
  /** One per target, under the weights to stay close to. `null` where the loss has no such term. */
  readonly referenceLogprobs: Float32Array | null;
};

/** A sequence to be imitated at `targets`, each weighing `weight`. */
export function cloningSequence(tokens: Uint32Array, targets: Uint32Array, weight: number): LossSequence {
  return {
    tokens,
    targets,
    weights: new Float32Array(targets.length).fill(weight),
    advantages: new Float32Array(targets.length).fill(1),
    sampledLogprobs: null,
    referenceLogprobs: null,
  };
}
