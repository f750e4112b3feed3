import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Trajectory, WeightSpan } from "../core/index.ts";
import {
  alignmentViolations,
  branchesOf,
  conservationViolations,
  dumpSample,
  toSamples,
  TrajectoryRecorder,
  turnPrompt,
  turnSequence,
} from "./index.ts";

const origin = {
  episodeId: "ep",
  groupId: "g",
  taskId: "t",
  reward: 1,
  tokenAccounting: "token-exact",
  historyPolicy: "append-only",
} as const;
const stop = { reason: "stop", matched: 9, raw: null } as const;

const ids = fc.array(fc.integer({ min: 0, max: 40 }), { minLength: 1, maxLength: 12 });
/**
 * A step adds an observation, or rewrites history to a prefix of the earlier tokens plus new ones;
 * then the policy acts.
 */
const step = fc.record({
  observation: ids,
  action: fc.array(fc.integer({ min: 0, max: 40 }), { maxLength: 10 }),
  keep: fc.option(fc.double({ min: 0, max: 1, noNaN: true })),
  cut: fc.integer({ min: 0, max: 10 }),
});
const steps = fc.array(step, { minLength: 1, maxLength: 12 });

type Step = { observation: number[]; action: number[]; keep: number | null; cut: number };

/** Applies steps and keeps a separate, naive copy of every prompt and action. */
function play(plan: readonly Step[]): { trajectory: Trajectory; prompts: number[][]; actions: number[][] } {
  const recorder = new TrajectoryRecorder();
  const prompts: number[][] = [];
  const actions: number[][] = [];
  let seen: number[] = [];
  for (const { observation, action, keep, cut } of plan) {
    if (keep !== null && seen.length > 0) {
      seen = [...seen.slice(0, Math.floor(keep * seen.length)), ...observation];
      recorder.rewrite(Uint32Array.from(seen), "test rewrote history");
    } else {
      seen = [...seen, ...observation];
      recorder.extend(observation);
    }
    prompts.push(seen);
    actions.push(action);
    expect([...recorder.prompt.view()]).toEqual(seen);
    const first = Math.min(cut, action.length);
    const weightSpans: WeightSpan[] = [
      { tokenCount: first, dispatch: "1", reply: "1" },
      { tokenCount: action.length - first, dispatch: "1", reply: "2" },
    ];
    recorder.act({
      sampledTokens: Uint32Array.from(action),
      logprobs: Float32Array.from(action, (id) => -id / 8),
      finish: stop,
      weightSpans,
    });
    seen = [...seen, ...action];
  }
  return { trajectory: recorder.trajectory, prompts, actions };
}

describe("trajectories", () => {
  it("every turn's derived prompt and action are the ones that were seen and sampled", () => {
    fc.assert(
      fc.property(steps, (plan) => {
        const { trajectory, prompts, actions } = play(plan);
        trajectory.turns.forEach((turn, index) => {
          expect([...turnPrompt(trajectory, index)]).toEqual(prompts[index]);
          expect([...turn.sampledTokens]).toEqual(actions[index]);
        });
      }),
      { seed: 1, numRuns: 300 },
    );
  });

  it("an append-only history is one branch; each turn stores only what it added", () => {
    fc.assert(
      fc.property(steps, (plan) => {
        const { trajectory } = play(plan.map((one) => ({ ...one, keep: null })));
        expect(branchesOf(trajectory)).toHaveLength(1);
        const stored = trajectory.turns.reduce(
          (sum, turn) => sum + turn.observationTokens.length + turn.sampledTokens.length,
          0,
        );
        expect(stored).toBe(turnSequence(trajectory, trajectory.turns.length - 1).length);
      }),
      { seed: 2, numRuns: 100 },
    );
  });

  it("every sampled token is trained exactly once, aligned with its logprob and weights", () => {
    fc.assert(
      fc.property(steps, (plan) => {
        const { trajectory, actions } = play(plan);
        const result = toSamples(trajectory, origin);
        expect(conservationViolations(trajectory, result)).toEqual([]);
        const trained = result.samples.flatMap((sample) =>
          [...sample.tokens].filter((_, at) => sample.lossMask[at] === 1),
        );
        expect(trained.toSorted((a, b) => a - b)).toEqual(actions.flat().toSorted((a, b) => a - b));
        for (const sample of result.samples) {
          sample.tokens.forEach((id, at) => {
            const logprob = sample.logprobs?.[at];
            if (sample.sampledMask[at] === 1) expect(logprob).toBe(Math.fround(-id / 8));
            else expect(logprob).toBeNaN();
          });
        }
      }),
      { seed: 3, numRuns: 300 },
    );
  });

  it("dropped turns are in no loss mask and are accounted for", () => {
    fc.assert(
      fc.property(steps, fc.integer({ min: 0, max: 3 }), (plan, nth) => {
        const { trajectory } = play(plan);
        const result = toSamples(trajectory, origin, {
          dropTurn: (turn) => (turn.index % 4 === nth ? "discarded-turn" : null),
        });
        expect(conservationViolations(trajectory, result)).toEqual([]);
        const trained = result.samples.reduce((sum, sample) => sum + sample.lossMask.reduce((a, b) => a + b, 0), 0);
        const dropped = result.dropped.reduce((sum, drop) => sum + drop.count, 0);
        expect(trained + dropped).toBe(trajectory.turns.reduce((sum, turn) => sum + turn.sampledTokens.length, 0));
      }),
      { seed: 4, numRuns: 200 },
    );
  });

  it("conservationViolations() finds a shifted mask, a token trained twice and a lost sample", () => {
    const { trajectory } = play([
      { observation: [1, 2, 3], action: [4, 5, 9], keep: null, cut: 0 },
      { observation: [6, 7], action: [8, 9], keep: null, cut: 1 },
      { observation: [7, 7], action: [2, 9], keep: 0.3, cut: 1 },
    ]);
    const right = toSamples(trajectory, origin);
    const [first, second] = right.samples;
    if (first === undefined || second === undefined) throw new Error("The plan has two branches.");
    const shifted = { ...first, lossMask: Uint8Array.from([0, ...first.lossMask.slice(0, -1)]) };
    expect(conservationViolations(trajectory, { ...right, samples: [shifted, second] })).not.toEqual([]);
    expect(conservationViolations(trajectory, { ...right, samples: [first, first, second] })).not.toEqual([]);
    expect(conservationViolations(trajectory, { ...right, samples: [first] })).not.toEqual([]);
    expect(
      conservationViolations(trajectory, {
        ...right,
        samples: [{ ...first, tokens: first.tokens.map((id) => id + 1) }, second],
      }),
    ).not.toEqual([]);
    expect(alignmentViolations({ ...first, logprobs: first.logprobs!.map(() => 0) })).not.toEqual([]);
    expect(alignmentViolations({ ...first, weightRanges: [] })).not.toEqual([]);
  });

  it("TrajectoryRecorder refuses logprobs and weight spans that do not match the action", () => {
    const recorder = new TrajectoryRecorder();
    const action = { sampledTokens: Uint32Array.of(1, 2), logprobs: null, finish: stop };
    expect(() => recorder.act({ ...action, weightSpans: [] })).toThrow("before the first observation");
    recorder.extend([1]);
    expect(() => recorder.act({ ...action, weightSpans: [] })).toThrow("cover 0 of 2");
    expect(() => recorder.act({ ...action, logprobs: Float32Array.of(1), weightSpans: [] })).toThrow(
      "1 logprobs for 2",
    );
  });

  it("dumpSample() prints token, mask and logprob in columns", () => {
    const { trajectory } = play([{ observation: [1], action: [8, 9], keep: null, cut: 0 }]);
    const sample = toSamples(trajectory, origin).samples[0]!;
    expect(dumpSample(sample, (tokens) => `t${tokens[0]}`)).toBe(
      ['     0       1 .           "t1"', '     1       8 1   -1.0000 "t8"', '     2       9 1   -1.1250 "t9"'].join(
        "\n",
      ),
    );
  });
});
