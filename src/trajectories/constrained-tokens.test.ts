import fc from "fast-check";
import { describe, expect, it } from "vitest";

import type { ConstrainedTokens, DroppedTokens, EpisodeSamples, Trajectory } from "../core/index.ts";
import { conservationViolations, toSamples, TrajectoryRecorder, turnSpans, untrainedTokens } from "./index.ts";

const origin = {
  episodeId: "ep",
  groupId: "g",
  taskId: "t",
  reward: 1,
  tokenAccounting: "token-exact",
  historyPolicy: "append-only",
} as const;

/** Two turns: one under a constraint on its tokens from 2 on, of which the last was forced, and a free one. */
function recorded(constrained: ConstrainedTokens | null): Trajectory {
  const recorder = new TrajectoryRecorder();
  for (const given of [constrained, null]) {
    recorder.extend([7, 8]);
    recorder.act({
      sampledTokens: Uint32Array.of(1, 2, 3, 4, 5),
      logprobs: Float32Array.of(0, -1, -2, -3, 0),
      finish: { reason: "stop", matched: null, raw: null },
      weightSpans: [{ tokenCount: 5, dispatch: null, reply: null }],
      constrained: given,
    });
  }
  return recorder.trajectory;
}
const under = (loss: ConstrainedTokens["loss"], ranges: ConstrainedTokens["ranges"] = [{ start: 2, end: 5 }]): ConstrainedTokens => ({ ranges, allowedMass: null, loss }); // prettier-ignore

describe("the loss of a constrained turn", () => {
  it.each([
    ["train", [1, 1, 1, 1, 0], [["forced", 1]]],
    [
      "mask",
      [1, 1, 0, 0, 0],
      [
        ["forced", 1],
        ["constrained", 2],
      ],
    ],
    [
      "drop",
      [0, 0, 0, 0, 0],
      [
        ["forced", 1],
        ["constrained", 4],
      ],
    ],
  ] as const)("with %s takes the tokens that it names, and a forced one never", (loss, mask, dropped) => {
    const trajectory = recorded(under(loss));
    const result = toSamples(trajectory, origin);
    const [sample] = result.samples;
    expect([...sample!.lossMask]).toEqual([0, 0, ...mask, 0, 0, 1, 1, 1, 1, 1]);
    expect([...sample!.sampledMask]).toEqual([0, 0, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1]);
    expect(sample!.constrainedRanges).toEqual([{ start: 4, end: 7 }]);
    expect(result.dropped.map(({ turn, reason, count }) => [turn, reason, count])).toEqual(
      dropped.map((one) => [0, ...one]),
    );
    expect(turnSpans(sample!, trajectory).map(({ isTrained }) => isTrained)).toEqual([loss !== "drop", true]);
    expect(conservationViolations(trajectory, result)).toEqual([]);
  });

  it("costs nothing and changes nothing where no constraint applied", () => {
    const trajectory = recorded(null);
    expect(trajectory.turns.map((turn) => "constrained" in turn)).toEqual([false, false]);
    expect(untrainedTokens(trajectory.turns[0]!)).toBeNull();
    const { samples, dropped } = toSamples(trajectory, origin);
    expect(dropped).toEqual([]);
    expect(samples.map((sample) => "constrainedRanges" in sample)).toEqual([false]);
    // A free token may have the logprob 0 too.
    expect([...samples[0]!.lossMask]).toEqual([0, 0, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1]);
  });

  it("is checked: a mask, a count or a reason that is wrong is found", () => {
    const trajectory = recorded(under("mask"));
    const right = toSamples(trajectory, origin);
    const [sample] = right.samples;
    const wrong = (changes: Partial<EpisodeSamples>): readonly string[] =>
      conservationViolations(trajectory, { ...right, ...changes });
    const masked = (lossMask: readonly number[]) => ({
      samples: [{ ...sample!, lossMask: Uint8Array.from(lossMask) }],
    });
    expect(wrong(masked([0, 0, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1]))).toEqual([
      expect.stringContaining("sampled token 2 is trained 1 times, expected 0"),
    ]);
    expect(wrong(masked([0, 0, 1, 1, 0, 0, 1, 0, 0, 1, 1, 1, 1, 1]))).toContainEqual(
      expect.stringContaining("was forced by a constraint"),
    );
    expect(wrong(masked([0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1]))).toEqual([
      expect.stringContaining("sampled token 1 is trained 0 times, expected 1"),
    ]);
    const dropped: readonly DroppedTokens[] = [{ turn: 0, reason: "forced", count: 1 }];
    expect(wrong({ dropped })).toEqual([
      expect.stringContaining("1 tokens are said to be constrained or forced, and not as many are"),
    ]);
    const outside = { samples: [{ ...sample!, constrainedRanges: [{ start: 1, end: 20 }] }] };
    expect(wrong(outside).join(" ")).toMatch(
      /no tokens are at its constrained range 1 to 20.*token 1 is constrained and was not sampled/,
    );
  });

  it.each([
    [{ ranges: [{ start: 3, end: 6 }] }, "range 3 to 6"],
    [{ ranges: [{ start: 3, end: 3 }] }, "range 3 to 3"],
    [
      {
        ranges: [
          { start: 3, end: 4 },
          { start: 2, end: 3 },
        ],
      },
      "range 2 to 3",
    ],
    [{ allowedMass: Float32Array.of(1) }, "1 allowed masses for 5"],
    [{ allowedMass: Float32Array.of(1, 1, 1, 1, -1) }, "5 allowed masses for 5"],
    [{ allowedMass: Float32Array.of(1, Number.NaN, 1, 1, 1) }, "5 allowed masses for 5"],
  ])("is not recorded from facts that do not fit the turn: %o", (changes, message) => {
    expect(() => recorded({ ...under("mask"), ...changes })).toThrow(message);
  });

  it("accounts for every token, for any ranges and logprobs", () => {
    const token = fc.record({ isConstrained: fc.boolean(), isForced: fc.boolean() });
    const plan = fc.array(fc.tuple(fc.array(token, { minLength: 1, maxLength: 9 }), fc.constantFrom("train", "mask", "drop")), { minLength: 1, maxLength: 5 }); // prettier-ignore
    fc.assert(
      fc.property(plan, (turns) => {
        const recorder = new TrajectoryRecorder();
        let expected = 0;
        for (const [tokens, loss] of turns) {
          recorder.extend([7]);
          const ranges = tokens.flatMap(({ isConstrained }, start) =>
            isConstrained ? [{ start, end: start + 1 }] : [],
          );
          recorder.act({
            sampledTokens: Uint32Array.from(tokens.keys()),
            logprobs: Float32Array.from(tokens, ({ isForced }) => (isForced ? 0 : -1)),
            finish: { reason: "stop", matched: null, raw: null },
            weightSpans: [{ tokenCount: tokens.length, dispatch: null, reply: null }],
            constrained: under(loss, ranges),
          });
          const isDropped = loss === "drop" && ranges.length > 0;
          expected += tokens.filter(
            ({ isConstrained, isForced }) => !isDropped && (!isConstrained || (loss === "train" && !isForced)),
          ).length;
        }
        const result = toSamples(recorder.trajectory, origin);
        expect(conservationViolations(recorder.trajectory, result)).toEqual([]);
        const trained = result.samples.flatMap(({ lossMask }) => [...lossMask]).filter((one) => one === 1).length;
        expect(trained).toBe(expected);
      }),
      { seed: 5, numRuns: 300 },
    );
  });
});
