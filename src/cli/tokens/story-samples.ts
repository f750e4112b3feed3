// Turns a recorded trajectory with roles into rows, masks and all. The masks are those of every other export: they are made
// by `toSamples` and nowhere else.

import type { Sample, Trajectory } from "../../core/index.ts";
import { branchesOf } from "../../trajectories/index.ts";
import type { StorySample, StoryToken, TokenRole } from "./token-story.ts";

export type StorySources = {
  readonly trajectory: Trajectory;
  /** One for each branch that trains something. */
  readonly samples: readonly Sample[];
  /** For each turn, the roles of its whole sequence, its action included. */
  readonly roles: ReadonlyMap<number, readonly TokenRole[]>;
  readonly decode: (ids: Uint32Array) => string;
};

export function storySamples({ trajectory, samples, roles, decode }: StorySources): StorySample[] {
  const branches = branchesOf(trajectory);
  return samples.map((sample) => {
    const path = branches[sample.branch] ?? [];
    const sequence = roles.get(path.at(-1)?.index ?? -1) ?? [];
    return {
      id: sample.id,
      rewriteReason: path.findLast(({ rewriteReason }) => rewriteReason !== null)?.rewriteReason ?? null,
      tokens: Array.from(sample.tokens, (id, at): StoryToken => {
        const logprob = sample.logprobs?.[at] ?? Number.NaN;
        return {
          id,
          text: decode(sample.tokens.subarray(at, at + 1)),
          role: sequence[at] ?? "history",
          isSampled: sample.sampledMask[at] === 1,
          isTrained: sample.lossMask[at] === 1,
          logprob: Number.isNaN(logprob) ? null : logprob,
        };
      }),
    };
  });
}

/** Tokens that nobody has answered yet. */
export function observedTokens(
  ids: Uint32Array,
  roles: readonly TokenRole[],
  decode: (ids: Uint32Array) => string,
): StoryToken[] {
  // prettier-ignore
  return Array.from(ids, (id, at) => ({
    id,
    text: decode(ids.subarray(at, at + 1)),
    role: roles[at] ?? "history",
    isSampled: false,
    isTrained: false,
    logprob: null,
  }));
}
