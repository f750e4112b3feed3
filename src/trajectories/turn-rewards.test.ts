import fc from "fast-check";
import { describe, expect, it } from "vitest";

import {
  addsUp,
  alignTurnRewards,
  completeTurnRewards,
  conservationViolations,
  discardedTurns,
  toSamples,
  TrajectoryRecorder,
  turnSpans,
} from "./index.ts";

const stop = { reason: "stop", matched: null, raw: null } as const;

describe("alignTurnRewards()", () => {
  it("takes one for each turn that counts, or one for each of the record, and gives the latter", () => {
    const counts = [true, false, true];
    expect(alignTurnRewards([0.25, 0.75], 1, counts)).toEqual([0.25, null, 0.75]);
    expect(alignTurnRewards([0.25, null, 0.75], 1, counts)).toEqual([0.25, null, 0.75]);
    expect(alignTurnRewards([null, 1], 1, [true, true])).toEqual([null, 1]);
    expect(alignTurnRewards([], 0, [])).toEqual([]);
  });

  it("refuses other lengths, rewards of turns that were discarded, and sums that are not the reward", () => {
    expect(() => alignTurnRewards([1], 1, [true, true, false])).toThrow(
      "turnRewards has 1 entries, the trajectory has 2 turns (1 more were discarded): pass one for each",
    );
    expect(() => alignTurnRewards([1, 0], 1, [true])).toThrow("has 2 entries, the trajectory has 1 turns: pass");
    expect(() => alignTurnRewards([0, 1, 0], 1, [true, false, true])).toThrow("turn 1 was discarded: expected null");
    expect(() => alignTurnRewards([0.5, 0.4], 1, [true, true])).toThrow("add up to 0.9, the reward is 1");
  });

  it("sums as floats do: a millionth of what was added is nothing, more is something", () => {
    expect(addsUp([0.1, 0.2], 0.3)).toBe(true);
    expect(addsUp([1e9, -1e9, 1], 1)).toBe(true);
    expect(addsUp([1], 1 + 1e-5)).toBe(false);
    expect(addsUp([null], 1e-30)).toBe(false);
    expect(addsUp([], 0)).toBe(true);
  });
});

describe("completeTurnRewards()", () => {
  it("gives the last turn that counts what the reward has beyond the others", () => {
    expect(completeTurnRewards([0.5, null], 2, [true, true])).toEqual([0.5, 1.5]);
    expect(completeTurnRewards([0.5, null], 0.5, [true, true])).toEqual([0.5, null]);
    // The reward reported for a discarded turn is not lost: it moves to the last turn, whose own
    // reward is not known.
    expect(completeTurnRewards([0.5, 0.25], 0.75, [true, false, true])).toEqual([0.5, null, 0.25]);
    expect(completeTurnRewards([null], 1, [true])).toBeNull();
    expect(completeTurnRewards([1], 1, [false])).toBeNull();
  });

  it("always adds up to the reward, with nothing at a turn that does not count", () => {
    const turn = fc.tuple(fc.option(fc.double({ min: -9, max: 9, noNaN: true })), fc.boolean());
    fc.assert(
      fc.property(fc.array(turn, { maxLength: 8 }), fc.double({ min: -9, max: 9, noNaN: true }), (turns, reward) => {
        const counts = turns.map(([, does]) => does);
        const complete = completeTurnRewards(turns.map(([one]) => one), reward, counts); // prettier-ignore
        if (complete === null) return;
        expect(complete).toHaveLength(turns.length);
        expect(addsUp(complete, reward)).toBe(true);
        expect(complete.every((one, at) => one === null || counts[at] === true)).toBe(true);
        expect(alignTurnRewards(complete, reward, counts)).toEqual(complete);
      }),
    );
  });
});

const turns = fc.array(
  fc.record({
    observed: fc.integer({ min: 1, max: 4 }),
    sampled: fc.integer({ min: 1, max: 4 }),
    rewrite: fc.boolean(),
    aborted: fc.boolean(),
    reward: fc.integer({ min: -8, max: 8 }),
  }),
  { minLength: 1, maxLength: 7 },
);

describe("turnSpans()", () => {
  it("names each sampled token once, and over all samples holds each reward of a trained turn once", () => {
    fc.assert(
      fc.property(turns, (plan) => {
        const recorder = new TrajectoryRecorder();
        let next = 0;
        const ids = (count: number): Uint32Array => Uint32Array.from({ length: count }, () => next++);
        for (const { observed, sampled, rewrite, aborted } of plan) {
          if (rewrite) recorder.rewrite(ids(observed), "test");
          else recorder.extend(ids(observed));
          const sampledTokens = ids(sampled);
          recorder.act({
            sampledTokens,
            logprobs: null,
            weightSpans: [{ tokenCount: sampled, dispatch: null, reply: null }],
            finish: aborted ? { ...stop, reason: "abort" } : stop,
          });
        }
        const { trajectory } = recorder;
        const discarded = discardedTurns({ trajectory, events: [] });
        const rewards = plan.map(({ reward, aborted }) => (aborted ? null : reward));
        const result = toSamples(
          trajectory,
          {
            episodeId: "e",
            groupId: "g",
            taskId: "t",
            reward: 0,
            tokenAccounting: "token-exact",
            historyPolicy: "branch",
          },
          { dropTurn: ({ index }) => (discarded.has(index) ? "discarded-turn" : null) },
        );
        expect(conservationViolations(trajectory, result)).toEqual([]);
        const trained = result.samples.flatMap((sample) => {
          const spans = turnSpans(sample, trajectory, rewards);
          for (const { turn, start, end, isTrained } of spans) {
            expect([...sample.tokens.subarray(start, end)]).toEqual([...trajectory.turns[turn]!.sampledTokens]);
            for (let at = start; at < end; at++) expect(sample.lossMask[at]).toBe(isTrained ? 1 : 0);
          }
          expect(spans.reduce((sum, { start, end }) => sum + end - start, 0)).toBe(
            sample.sampledMask.reduce((sum, one) => sum + one, 0),
          );
          return spans.filter(({ isTrained }) => isTrained);
        });
        expect(trained.map(({ turn }) => turn).toSorted((a, b) => a - b)).toEqual(
          plan.flatMap(({ aborted }, turn) => (aborted ? [] : [turn])),
        );
        expect(trained.reduce((sum, { reward }) => sum + (reward ?? 0), 0)).toBe(
          rewards.reduce<number>((sum, one) => sum + (one ?? 0), 0),
        );
      }),
    );
  });
});
