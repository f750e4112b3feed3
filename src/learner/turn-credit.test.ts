import { describe, expect, test } from "vitest";

import type { Episode } from "../core/index.ts";
import type { FinishedEpisode } from "../rollout/index.ts";
import { toSamples, TrajectoryRecorder } from "../trajectories/index.ts";
import { groupAdvantages, policySequences, weighSamples, type WeighOptions } from "./group-advantages.ts";
import { tokenLoss } from "./loss.ts";
import { earnedTurns, returnsToGo, turnAdvantages } from "./turn-credit.ts";

/**
 * Two tokens sampled in each turn, one observed before it. `aborted`: turns that the engine
 * aborted.
 */
function played(
  id: string,
  reward: number,
  turnRewards: readonly (number | null)[] | null,
  { turns = turnRewards?.length ?? 1, aborted = [] as readonly number[], violations = 0 } = {},
): FinishedEpisode {
  const recorder = new TrajectoryRecorder();
  for (let turn = 0; turn < turns; turn++) {
    recorder.extend([10 + turn]);
    recorder.act({
      sampledTokens: Uint32Array.from([20 + turn, 30 + turn]),
      logprobs: Float32Array.from([-0.5, -0.25]),
      finish: { reason: aborted.includes(turn) ? "abort" : "stop", matched: null, raw: null },
      weightSpans: [{ tokenCount: 2, dispatch: "1", reply: "1" }],
    });
  }
  const { trajectory } = recorder;
  const grade = { reward, metrics: { ruleViolations: violations }, log: "", info: new Map(), turnRewards };
  const episode = { id, reward, grade, trajectory, events: [] } as Partial<Episode> as Episode;
  const result = toSamples(
    trajectory,
    {
      episodeId: id,
      groupId: "g",
      taskId: "t",
      reward,
      tokenAccounting: "token-exact",
      historyPolicy: "branch",
    },
    { dropTurn: ({ index }) => (aborted.includes(index) ? "discarded-turn" : null) },
  );
  return { episode, result, origin: "new" };
}

const plain: WeighOptions = { baseline: "group", normalize: false, penalty: 0, credit: "turn" };

function perToken(episodes: readonly FinishedEpisode[], options: Partial<WeighOptions> = {}): Record<string, number[]> {
  const rows = weighSamples([{ episodes }], { ...plain, ...options });
  return Object.fromEntries(
    rows.map(({ sample, advantage }) => [
      sample.episodeId,
      [...(advantage as Float32Array)].map((one) => +one.toFixed(6)),
    ]),
  );
}

describe("credit of turns", () => {
  test("a return is what was earned from a turn on, less for what comes later", () => {
    expect(returnsToGo([1, 0, 4], 1)).toEqual([5, 4, 4]);
    expect(returnsToGo([1, 0, 4], 0.5)).toEqual([2, 2, 4]);
    expect(returnsToGo([], 0.5)).toEqual([]);
  });

  test("by hand: two episodes of unlike length, with a discount", () => {
    // Returns are 1 + 0.5 * 2 = 2 and 2 for the first, 4 for the second. Means are (2 + 4) / 2 = 3,
    // and (2 + 0) / 2 = 1, as the second has stopped.
    expect(turnAdvantages([[1, 2], [4]], { discount: 0.5, normalize: false })).toEqual([[-1, 1], [1]]);
    // Divided by the root of (1 + 1 + 1) / 3.
    const [first] = turnAdvantages([[1, 2], [4]], { discount: 0.5, normalize: true });
    expect(first![0]).toBeCloseTo(-1 / 1.0001, 10);
  });

  test("tokens of a turn get its advantage, observations none; a discarded turn is none", () => {
    const group = [played("two", 3, [1, 2]), played("one", 1, [1, null], { aborted: [1], turns: 2 })];
    // Returns 3, 2 and 1: means 2 and 1.
    expect(perToken(group)).toEqual({ two: [0, 1, 1, 0, 1, 1], one: [0, -1, -1, 0, 0, 0] });
    expect(perToken([played("two", 3, [1, 2]), played("cut", 1, [1, null, 0], { aborted: [1] })])["cut"]).toEqual([
      ...[0, -1, -1, 0, 0, 0],
      ...[0, -1, -1],
    ]);
  });

  test("prices and batches: a broken rule lowers every turn, and the step may be the pool", () => {
    const group = [played("a", 1, [1]), played("b", 0, [0], { violations: 1 })];
    expect(perToken(group, { penalty: 0.25 })).toEqual({ a: [0, 0.5, 0.5], b: [0, -0.75, -0.75] });
    const groups = [[played("a", 1, [1])], [played("b", 0, [0])]].map((episodes) => ({ episodes }));
    expect(weighSamples(groups, plain)).toEqual([]);
    expect(weighSamples(groups, { ...plain, baseline: "batch" }).map(({ advantage }) => (advantage as Float32Array)[1])).toEqual([0.5, -0.5]); // prettier-ignore
  });

  test("episodes of one turn without rewards of turns are weighed as by their outcome", () => {
    const rewards = [1, 0, 0, 0.25];
    const [outcome] = groupAdvantages([rewards], { baseline: "group", normalize: true });
    const turn = turnAdvantages(rewards.map((reward) => [reward]), { discount: 1, normalize: true }); // prettier-ignore
    turn.forEach(([one], at) => expect(one).toBeCloseTo(outcome![at]!, 12));
    expect(earnedTurns(played("a", 0.5, null, { turns: 3 }).episode)).toEqual({
      turns: [0, 1, 2],
      rewards: [0, 0, 0.5],
    });
  });

  test("a grade that is not aligned with the turns is refused, and what earned alike teaches nothing", () => {
    expect(() => earnedTurns(played("a", 1, [1, 0], { turns: 3 }).episode)).toThrow("2 rewards of turns, the trajectory 3 turns"); // prettier-ignore
    const alike = [played("a", 0.3, [0.1, 0.2]), played("b", 0.3, [0.1, 0.2]), played("c", 0.3, [0.1, 0.2])];
    expect(weighSamples([{ episodes: alike }], { ...plain, normalize: true })).toEqual([]);
    // Equal sums, earned at other turns.
    const unlike = [played("a", 1, [1, 0]), played("b", 1, [0, 1])];
    expect(perToken(unlike)).toEqual({ a: [0, 0, 0, 0, -0.5, -0.5], b: [0, 0, 0, 0, 0.5, 0.5] });
  });

  test("the loss has the gradient of each turn's advantage at its tokens", () => {
    const [row] = weighSamples([{ episodes: [played("two", 3, [1, 2]), played("one", 1, [1])] }], plain);
    const [sequence] = policySequences([{ ...row!, advantage: Float32Array.from([0, 1, 1, 0, -2, -2]) }]);
    expect([...sequence!.targets]).toEqual([1, 2, 4, 5]);
    expect([...sequence!.advantages]).toEqual([1, 1, -2, -2]);
    const slopes = [...sequence!.advantages].map((advantage, at) => {
      const terms = { weight: sequence!.weights[at]!, advantage, sampledLogprob: -1, referenceLogprob: -1 };
      const loss = (logprob: number): number => tokenLoss(logprob, 0, terms, {}).loss;
      expect(tokenLoss(-1, 0, terms, {}).slope).toBeCloseTo((loss(-1 + 1e-4) - loss(-1 - 1e-4)) / 2e-4, 6);
      return tokenLoss(-1, 0, terms, {}).slope;
    });
    expect(slopes).toEqual([-0.25, -0.25, 0.5, 0.5]);
  });
});

/**
 * The policy continues with probability p after each of at most `most` turns; every turn earns
 * `reward`, regardless of the action. The logit of continuing has the gradient E[(earned later if
 * it continues) - 0] p (1 - p), which is what estimators must find.
 */
function goingOn(advantage: (episodes: readonly (readonly number[])[]) => readonly (readonly number[])[]) {
  const [p, reward, most] = [0.6, 1, 4];
  // The population of episodes in exact shares of 625: lengths 1 to 4 have 0.4, 0.24, 0.144 and 0.216.
  const lengths = [...Array<number>(250).fill(1), ...Array<number>(150).fill(2), ...Array<number>(90).fill(3), ...Array<number>(135).fill(4)]; // prettier-ignore
  const episodes = lengths.map((length) => Array<number>(length).fill(reward));
  const advantages = advantage(episodes);
  // Score of the decision at the end of turn 1: 1 - p if it continued, -p if it stopped.
  const estimate = lengths.reduce((sum, length, at) => sum + (length > 1 ? 1 - p : -p) * advantages[at]![0]!, 0) / 625;
  const earnedLater = reward * (1 + p + p ** 2);
  return { estimate, truth: p * (1 - p) * earnedLater, earnedLater, p, most };
}

/**
 * The estimator of verl issue 7244: each turn's reward less the mean over the episodes that are
 * still running, then added up.
 */
function perIndexMeans(episodes: readonly (readonly number[])[]): readonly (readonly number[])[] {
  const means = [0, 1, 2, 3].map((at) => {
    const there = episodes.flatMap((rewards) => rewards[at] ?? []);
    return there.reduce((sum, one) => sum + one, 0) / there.length;
  });
  return episodes.map((rewards) => returnsToGo(rewards.map((one, at) => one - means[at]!), 1)); // prettier-ignore
}

describe("when the policy decides when to stop", () => {
  test("means per index over those still there have the bias of the closed form: minus the mean of what is earned later", () => {
    const { estimate, truth, earnedLater, p } = goingOn(perIndexMeans);
    expect(estimate - truth).toBeCloseTo(-p * (1 - p) * earnedLater, 10);
    // Continuing is worth 1.96 rewards, and the estimate gives none.
    expect(estimate).toBeCloseTo(0, 10);
  });

  test("ours has none", () => {
    const { estimate, truth } = goingOn((episodes) => turnAdvantages(episodes, { discount: 1, normalize: false }));
    expect(truth).toBeCloseTo(0.4704, 10);
    expect(estimate).toBeCloseTo(truth, 10);
  });
});
