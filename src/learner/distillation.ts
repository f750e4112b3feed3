// On-policy distillation: the advantage of a sampled token is how much likelier the teacher finds it
// than the policy did, mixed with the advantage of its reward. Over tokens that the policy sampled,
// the gradient is that of the reverse KL divergence, KL(policy, teacher), one token at a time.

import type { LossSequence } from "./loss.ts";

export type DistillOptions = {
  /** Weight of the teacher's logprob minus the policy's; 0 or more. */
  readonly teacherWeight: number;
  /** Weight of the advantages of rewards; 0 or more. */
  readonly rewardWeight: number;
};

export type Distilled = {
  readonly sequences: readonly LossSequence[];
  /** Mean of the policy's logprob minus the teacher's over all targets, in nats: an estimate of KL(policy, teacher). */
  readonly teacherKl: number;
};

/**
 * The sequences with advantages `rewardWeight * advantage + teacherWeight * (teacher - sampled)`.
 * `teacher`: logprobs aligned with the targets of each sequence. Throws an `Error` for a sequence
 * without sampled logprobs, or with another number of targets.
 */
export function distilled(
  sequences: readonly LossSequence[],
  teacher: readonly Float32Array[],
  { teacherWeight, rewardWeight }: DistillOptions,
): Distilled {
  let [sum, count] = [0, 0];
  const weighed = sequences.map((sequence, index) => {
    const { advantages, sampledLogprobs, targets } = sequence;
    const scores = teacher[index];
    if (sampledLogprobs === null || scores?.length !== targets.length) {
      throw new Error(
        `Cannot distil sequence ${index}: it has ${sampledLogprobs === null ? "no" : sampledLogprobs.length} sampled logprobs and ${scores?.length ?? "no"} of the teacher, expected ${targets.length} of each.`,
      );
    }
    const mixed = Float32Array.from(advantages, (advantage, at) => {
      const gap = scores[at]! - sampledLogprobs[at]!;
      sum -= gap;
      count++;
      return rewardWeight * advantage + teacherWeight * gap;
    });
    return { ...sequence, advantages: mixed };
  });
  return { sequences: weighed, teacherKl: count === 0 ? 0 : sum / count };
}
