import { afterEach, describe, expect, test } from "vitest";

import { distilled } from "./distillation.ts";
import { type LossSequence, tokenLoss } from "./loss.ts";
import { stepMetrics } from "./policy-learner.ts";
import { tinyConfig, tinyLearner, type TinyLearner } from "./tiny-world.test-helper.ts";

const open: TinyLearner[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((one) => one.close()));
});

async function learnerOf(...given: Parameters<typeof tinyLearner>): Promise<TinyLearner> {
  const made = await tinyLearner(...given);
  open.push(made);
  return made;
}

const never = new AbortController().signal;

function sequenceOf(advantages: readonly number[], sampled: readonly number[] | null): LossSequence {
  return {
    tokens: new Uint32Array(advantages.length + 1),
    targets: Uint32Array.from(advantages, (_, at) => at + 1),
    weights: new Float32Array(advantages.length).fill(0.5),
    advantages: Float32Array.from(advantages),
    sampledLogprobs: sampled === null ? null : Float32Array.from(sampled),
    referenceLogprobs: null,
  };
}

describe("distilled()", () => {
  test("mixes rewards and teacher by their weights", () => {
    const { sequences, teacherKl } = distilled(
      [sequenceOf([1, -1], [-0.5, -2]), sequenceOf([0], [-1])],
      [Float32Array.of(-1.5, -1), Float32Array.of(-1.25)],
      { teacherWeight: 2, rewardWeight: 0.5 },
    );
    expect(sequences.map(({ advantages }) => [...advantages])).toEqual([[0.5 - 2, -0.5 + 2], [-0.5]]);
    expect(teacherKl).toBeCloseTo((1 - 1 + 0.25) / 3, 9);
  });

  test("its expected gradient is that of KL(policy, teacher), in closed form", () => {
    const [policy, teacher] = [
      [0.5, 0.3, 0.2],
      [0.1, 0.6, 0.3],
    ] as const;
    const kl = policy.reduce((sum, p, at) => sum + p * Math.log(p / teacher[at]!), 0);
    // The slope of the loss by the logprob of each token, had it been sampled.
    const slopes = policy.map((p, at) => {
      const { sequences } = distilled([sequenceOf([3], [Math.log(p)])], [Float32Array.of(Math.log(teacher[at]!))], {
        teacherWeight: 1,
        rewardWeight: 0,
      });
      const terms = { weight: 1, advantage: sequences[0]!.advantages[0]!, sampledLogprob: 0, referenceLogprob: 0 };
      return tokenLoss(Math.log(p), 0, terms, {}).slope;
    });
    for (const [logit, p] of policy.entries()) {
      const expected = policy.reduce((sum, q, at) => sum + q * slopes[at]! * ((at === logit ? 1 : 0) - p), 0);
      expect(expected).toBeCloseTo(p * (Math.log(p / teacher[logit]!) - kl), 6);
    }
  });

  test.each([
    ["without sampled logprobs", sequenceOf([1], null), [Float32Array.of(-1)]],
    ["with other tokens", sequenceOf([1], [-1]), [Float32Array.of(-1, -2)]],
    ["without a teacher", sequenceOf([1], [-1]), []],
  ])("refuses a sequence %s", (_, sequence, teacher) => {
    expect(() => distilled([sequence], teacher, { teacherWeight: 1, rewardWeight: 1 })).toThrow(
      "Cannot distil sequence 0",
    );
  });
});

describe("a policy learner with a teacher", () => {
  test("makes one step of known numbers, in which groups without variance teach too", async () => {
    const distill = { teacherWeight: 0.5, rewardWeight: 0 };
    const { learner } = await learnerOf(
      { distill, groups: 3, groupSize: 2, maxGroups: 3 },
      {
        // Every token is twice as likely under this teacher.
        teacherOf: () => async (sequences) =>
          sequences.map(({ sampledLogprobs }) => sampledLogprobs!.map((logprob) => logprob + Math.LN2)),
      },
    );
    const step = (await learner.step(never))!;
    expect(step.groups).toHaveLength(3);
    const samples = step.groups.flatMap(({ episodes }) => episodes.flatMap(({ result }) => result.samples));
    const logprobs = samples.flatMap(({ lossMask, logprobs: own }) => [...own!].filter((_, at) => lossMask[at] === 1));
    expect(step.update!.tokens).toBe(logprobs.length);
    expect(step.update!.teacherKl).toBeCloseTo(-Math.LN2, 5);
    const mean = logprobs.reduce((sum, logprob) => sum + logprob, 0) / logprobs.length;
    expect(step.update!.loss).toBeCloseTo(-0.5 * Math.LN2 * mean, 4);
    expect(stepMetrics(step)["teacher_kl"]).toBeCloseTo(-Math.LN2, 5);
  });

  test("comes closer to the teacher, and not to another one", async () => {
    /** Logprobs of a teacher that gives half of the probability to ten tokens at every place. */
    const logprobsOf =
      (first: number) =>
      ({ tokens, targets }: LossSequence): Float32Array =>
        Float32Array.from(targets, (place) => {
          const isLikely = tokens[place]! >= first && tokens[place]! < first + 10;
          return Math.log(isLikely ? 0.05 : 0.5 / (tinyConfig.vocabularySize - 10));
        });
    const [right, wrong] = [logprobsOf(100), logprobsOf(110)];
    const learn = async (teacher: typeof right): Promise<{ own: number; right: number }[]> => {
      const distances: { own: number; right: number }[] = [];
      const { learner } = await learnerOf(
        { distill: { teacherWeight: 1, rewardWeight: 0 } },
        {
          teacherOf: () => async (sequences) => {
            const mean = (of: typeof right): number => {
              const gaps = sequences.flatMap((one) =>
                [...of(one)].map((score, at) => one.sampledLogprobs![at]! - score),
              );
              return gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length;
            };
            distances.push({ own: mean(teacher), right: mean(right) });
            return sequences.map(teacher);
          },
        },
      );
      for (let step = 0; step < 10; step++) {
        const { update } = (await learner.step(never))!;
        expect(update!.teacherKl).toBeCloseTo(distances[step]!.own, 4);
      }
      return distances;
    };
    const [taught, mistaught] = [await learn(right), await learn(wrong)];
    for (const distances of [taught, mistaught]) expect(distances[9]!.own).toBeLessThan(distances[0]!.own * 0.8);
    // The control: a wrong teacher does not bring the policy to the right one.
    expect(mistaught[9]!.right).toBeGreaterThan(taught[9]!.right * 1.2);
  });
});
