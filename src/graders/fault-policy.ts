// What becomes of the training rows of an episode whose failure was not the policy's. Keeps the accounting exact: a token
// that is no longer trained is dropped with a reason, never lost.

import type { DroppedTokens, EpisodeSamples, Trajectory } from "../core/index.ts";
import type { Fault } from "./fault-attribution.ts";

/**
 * "keep": trained as it is. "mask": the rows stay in the group, with their rewards, and no token enters the loss. "drop": the
 * rows leave the group.
 */
export type FaultPolicy = "keep" | "mask" | "drop";

export const faultPolicies: readonly FaultPolicy[] = ["keep", "mask", "drop"];

/** Whether a failure says nothing about the policy that was trained. */
export function isForeignFault(fault: Fault): boolean {
  return fault !== "agent";
}

/** The rows of such an episode under a policy. Every token that was trained before is dropped with reason "filtered" after. */
export function applyFaultPolicy(
  { samples, dropped }: EpisodeSamples,
  options: { readonly policy: FaultPolicy; readonly trajectory: Trajectory },
): EpisodeSamples {
  const { policy, trajectory } = options;
  if (policy === "keep") return { samples, dropped };
  const filtered = trajectory.turns.flatMap(({ index, sampledTokens }): DroppedTokens[] => {
    const before = dropped.reduce((sum, { turn, count }) => sum + (turn === index ? count : 0), 0);
    const count = sampledTokens.length - before;
    return count === 0 ? [] : [{ turn: index, count, reason: "filtered" }];
  });
  const masked = samples.map((sample) => ({ ...sample, lossMask: new Uint8Array(sample.lossMask.length) }));
  return { samples: policy === "mask" ? masked : [], dropped: [...dropped, ...filtered] };
}
