// Decides which tokens of a constrained turn are trained: nothing else does.
//
// A constraint changes the distribution that a token is sampled from: q, the policy p restricted to
// the allowed ids and renormalised. A reward teaches the policy through log q, whose gradient is
// that of log p minus that of the log of the allowed mass. Trainers compute log p over the whole
// vocabulary and know no mask, so:
//
//   forced        one allowed id: log q is 0 under all weights, and so is its gradient. It is never
//                 trained. Recognised by a recorded logprob of exactly 0.
//   constrained   "mask" (the default) keeps it out of the loss, "train" trains it like any other
//                 token, "drop" keeps the whole turn out.
//   free          trained as always, e.g. the reasoning before a forced call.
//
// With "mask", every token in the loss contributes its exact part of the gradient of the expected
// reward. With "train", a constrained token contributes the part of log p, scaled by the allowed
// mass where the trainer weighs by the recorded logprob: both differ from the part of log q. The
// test `learner/constrained-loss.test.ts` enumerates a world of two tokens and shows it.

import type { ConstrainedLoss, ConstrainedTokens } from "../core/constraint.ts";
import type { DroppedTokens, Turn } from "../core/turn.ts";

/** The setting under which every token in the loss contributes without bias. */
export const defaultConstrainedLoss: ConstrainedLoss = "mask";

type ConstrainedTurn = Pick<Turn, "sampledTokens" | "logprobs" | "constrained">;

/** Reason for not training each token of a turn that is trained otherwise. */
type TokenReason = Extract<DroppedTokens["reason"], "forced" | "constrained">;

/**
 * One entry per sampled token: the reason for not training it, `null` for a trained token. `null`
 * instead of a list if the whole turn is trained.
 */
export function untrainedTokens(turn: ConstrainedTurn): readonly (TokenReason | null)[] | null {
  const constrained = turn.constrained ?? null;
  if (constrained === null) return null;
  const { ranges, loss } = constrained;
  const { sampledTokens, logprobs } = turn;
  const isDropped = loss === "drop" && ranges.length > 0;
  const reasons = Array<TokenReason | null>(sampledTokens.length).fill(isDropped ? "constrained" : null);
  for (const { start, end } of ranges)
    for (let at = start; at < end; at++)
      if (logprobs?.[at] === 0) reasons[at] = "forced";
      else if (loss !== "train") reasons[at] = "constrained";
  return reasons.every((reason) => reason === null) ? null : reasons;
}

/** Numbers of tokens of a turn that a constraint keeps out of the loss, by reason. */
export function untrainedCounts(turn: ConstrainedTurn): readonly Omit<DroppedTokens, "turn">[] {
  const reasons = untrainedTokens(turn);
  if (reasons === null) return [];
  const countOf = (reason: TokenReason): number => reasons.filter((one) => one === reason).length;
  return (["forced", "constrained"] as const).map((reason) => ({ reason, count: countOf(reason) }));
}

/** Throws a plain error if these facts do not fit turn `index` of `count` sampled tokens. */
export function checkConstrained(
  { ranges, allowedMass }: ConstrainedTokens,
  { index, count }: { readonly index: number; readonly count: number },
): void {
  const refuse = (why: string): never => {
    throw new Error(`Cannot record turn ${index}: ${why}.`);
  };
  let last = 0;
  for (const { start, end } of ranges) {
    if (!(Number.isInteger(start) && Number.isInteger(end) && start >= last && end > start && end <= count))
      refuse(`the constrained range ${start} to ${end} does not fit ${count} sampled tokens in ascending order`);
    last = end;
  }
  if (allowedMass === null) return;
  if (allowedMass.length !== count || !allowedMass.every((mass) => mass >= 0 && mass <= 1.001))
    refuse(`${allowedMass.length} allowed masses for ${count} sampled tokens; give one of 0 to 1 for each, or null`);
}
