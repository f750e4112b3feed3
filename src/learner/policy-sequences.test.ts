import { describe, expect, test } from "vitest";

import type { Sample } from "../core/index.ts";
import { disagreement, logprobAgreement } from "./loss.ts";
import { policySequences } from "./group-advantages.ts";

/** Two tokens of prompt, an action of three, an observation of two, an action of one. */
const mask = [0, 0, 1, 1, 1, 0, 0, 1];

function sampleOf(change: Partial<Sample> = {}): Sample {
  return {
    id: "e/0",
    episodeId: "e",
    groupId: "g",
    taskId: "t",
    branch: 0,
    tokens: Uint32Array.from([10, 11, 12, 13, 14, 15, 16, 17]),
    sampledMask: Uint8Array.from(mask),
    lossMask: Uint8Array.from(mask),
    logprobs: Float32Array.from(mask, (one, at) => (one === 1 ? -at : Number.NaN)),
    weightRanges: [
      { start: 2, end: 5, tokenCount: 3, dispatch: "step-0", reply: "step-0" },
      { start: 7, end: 8, tokenCount: 1, dispatch: "step-0", reply: "step-0" },
    ],
    reward: 1,
    tokenAccounting: "token-exact",
    historyPolicy: "append-only",
    deviations: [],
    ...change,
  };
}

const shifted = Uint8Array.from([0, 0, 0, 1, 1, 1, 0, 0]);

describe("policySequences()", () => {
  test("trains exactly the tokens of the loss mask, each with the same weight and its episode's advantage", () => {
    const rows = [
      { sample: sampleOf(), advantage: 1.5 },
      { sample: sampleOf({ lossMask: Uint8Array.from([0, 0, 1, 1, 1, 0, 0, 0]) }), advantage: -0.5 },
    ];
    const [first, second] = policySequences(rows);
    expect([...first!.targets]).toEqual([2, 3, 4, 7]);
    expect([...second!.targets]).toEqual([2, 3, 4]);
    for (const weight of [...first!.weights, ...second!.weights]) expect(weight).toBeCloseTo(1 / 7, 6);
    expect([...first!.advantages]).toEqual([1.5, 1.5, 1.5, 1.5]);
    expect([...second!.advantages]).toEqual([-0.5, -0.5, -0.5]);
    expect([...first!.sampledLogprobs!]).toEqual([-2, -3, -4, -7]);
  });

  test("refuses a mask that is shifted, samples of re-encoded text, and samples without logprobs", () => {
    const refused = (change: Partial<Sample>) => () => policySequences([{ sample: sampleOf(change), advantage: 1 }]);
    expect(refused({ lossMask: shifted })).toThrow("token 5 enters the loss and was not sampled");
    expect(refused({ lossMask: shifted, sampledMask: shifted })).toThrow("Cannot train");
    expect(refused({ tokenAccounting: "text-delta" })).toThrow("re-encoded text");
    expect(refused({ logprobs: null })).toThrow("no logprobs");
  });

  test("spoils masks when an experiment asks for it", () => {
    const rows = [{ sample: sampleOf(), advantage: 1 }];
    expect([...policySequences(rows, "shifted-mask")[0]!.targets]).toEqual([3, 4, 5]);
    const long = Uint8Array.from({ length: 44 }, (_, at) => (at < 4 || (at >= 22 && at < 26) ? 1 : 0));
    const logprobs = Float32Array.from(long, (one) => (one === 1 ? -1 : Number.NaN));
    const sample = sampleOf({ tokens: new Uint32Array(44), sampledMask: long, lossMask: long, logprobs });
    // 20 places later, without those that were sampled.
    expect([...policySequences([{ sample, advantage: 1 }], "far-shifted-mask")[0]!.targets]).toEqual([20, 21, 42, 43]);
    expect([...policySequences(rows, "observations-too")[0]!.targets]).toEqual([2, 3, 4, 5, 6, 7]);
    // Those tokens were not sampled: the engine's logprobs belong to other tokens.
    const agreement = logprobAgreement(policySequences(rows, "shifted-mask"), [
      { logprobs: new Float32Array(3), entropies: new Float32Array(3) },
    ]);
    expect(agreement).toEqual({ mean: 0, largest: 0, kl: 0, tokens: 0 });
    expect(disagreement(agreement)).toBeNull();
  });

  test("turns rewards round when an experiment asks for it, and leaves the mask as it is", () => {
    const rows = [
      { sample: sampleOf(), advantage: 1.5 },
      { sample: sampleOf(), advantage: new Float32Array(8).fill(-0.5) },
    ];
    const [first, second] = policySequences(rows, "reversed-rewards");
    expect([...first!.targets]).toEqual([2, 3, 4, 7]);
    expect([...first!.advantages]).toEqual([-1.5, -1.5, -1.5, -1.5]);
    expect([...second!.advantages]).toEqual([0.5, 0.5, 0.5, 0.5]);
    expect([...first!.sampledLogprobs!]).toEqual([-2, -3, -4, -7]);
  });
});

describe("logprobAgreement()", () => {
  const sequences = policySequences([{ sample: sampleOf(), advantage: 1 }]);
  const entropies = new Float32Array(4);
  const outcomeOf = (...logprobs: number[]) => [{ logprobs: Float32Array.from(logprobs), entropies }];

  test("is the distance of what was reported to what training computes", () => {
    const agreement = logprobAgreement(sequences, outcomeOf(-2, -3.5, -4, -7.25));
    expect(agreement).toMatchObject({ mean: 0.75 / 4, largest: 0.5, tokens: 4 });
    // One logprob is 0.5 lower in training, one 0.25 lower.
    expect(agreement.kl).toBeCloseTo((Math.exp(-0.5) - 1 + 0.5 + Math.exp(-0.25) - 1 + 0.25) / 4);
    expect(disagreement(agreement)).toContain("differ by 1.9e-1 on average and 5.0e-1 at most");
  });

  test("is none where the two are equal, and a logprob that is not a number disagrees", () => {
    expect(disagreement(logprobAgreement(sequences, outcomeOf(-2, -3, -4, -7)))).toBeNull();
    expect(disagreement(logprobAgreement(sequences, outcomeOf(-2, -3, -4, Number.NaN)))).not.toBeNull();
    expect(disagreement({ mean: 0, largest: 3e-3 })).not.toBeNull();
    expect(disagreement({ mean: 2e-4, largest: 1e-3 })).not.toBeNull();
  });
});
