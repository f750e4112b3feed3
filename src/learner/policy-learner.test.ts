import { setMaxListeners } from "node:events";
import { afterEach, describe, expect, test } from "vitest";

import type { EpisodeEvent } from "../core/index.ts";
import {
  type StepGroup,
  DisagreementError,
  type PolicyOptions,
  type PolicyStep,
  stepMetrics,
} from "./policy-learner.ts";
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
setMaxListeners(0, never);

async function steps({ learner }: TinyLearner, count: number): Promise<PolicyStep[]> {
  const made: PolicyStep[] = [];
  for (let step = 0; step < count; step++) made.push((await learner.step(never))!);
  return made;
}

function passRate(made: readonly PolicyStep[]): number {
  const rates = made.map((step) => stepMetrics(step)["pass_rate"] ?? 0);
  return rates.reduce((sum, rate) => sum + rate, 0) / rates.length;
}

const grpo: [string, Partial<PolicyOptions>] = ["GRPO", {}];
const others: [string, Partial<PolicyOptions>][] = [
  ["GRPO with clip, distance and entropy", { loss: { clip: { low: 0.2, high: 0.2 }, kl: 0.01, entropy: 0.001 } }],
  ["REINFORCE", { baseline: "batch" }],
];
const algorithms = process.env["FULL"] === "1" ? [grpo, ...others] : [grpo];

describe("a policy learner", () => {
  test.each(algorithms)("%s makes what is rewarded likelier", async (_, options) => {
    const made = await steps(await learnerOf(options), 12);
    const [first, last] = [passRate(made.slice(0, 3)), passRate(made.slice(-3))];
    // At least a hundred episodes on each side: a rise of 0.2 by chance would be three standard
    // deviations.
    expect(last).toBeGreaterThan(first + 0.2);
    for (const { update } of made) {
      if (update === null) continue;
      expect(update.agreement.mean).toBeLessThan(1e-5);
      expect(update.agreement.tokens).toBe(update.tokens);
      expect(update.kl).toBeGreaterThanOrEqual(0);
    }
    expect(made.map(({ weightVersion }) => weightVersion).slice(0, 2)).toEqual(["step-0", "step-1"]);
    expect(made.map(({ update }) => update?.learningRate).slice(0, 3)).toEqual([5e-3, 1e-2, 1e-2]);
  });

  test("goes on from its state as if it had never stopped: the same weights, bit by bit", async () => {
    const whole = await learnerOf();
    await steps(whole, 3);
    const first = await learnerOf();
    await steps(first, 2);
    const second = await learnerOf(
      {},
      {
        checkpoint: { config: tinyConfig, weights: first.trainer.weights() },
        optimizer: await first.trainer.optimizerState(),
        state: first.learner.state,
      },
    );
    await steps(second, 1);
    expect(second.trainer.weights()).toEqual(whole.trainer.weights());
    expect(second.learner.state).toEqual(whole.learner.state);
  });

  test("plays further tasks in place of groups that teach nothing, and up to the bound", async () => {
    const { learner } = await learnerOf({ groupSize: 2, groups: 6, maxGroups: 10 });
    const { groups } = (await learner.step(never))!;
    const live = groups.filter((group) => !group.hasZeroVariance).length;
    expect(live < 5 ? groups.length : 10).toBe(10);
    expect(groups.length).toBeGreaterThan(6);
    expect(learner.state).toMatchObject({ step: 1, groups: groups.length, liveShare: live / groups.length });
    expect(new Set(groups.map(({ task }) => task.id)).size).toBe(groups.length);
  });

  test("learns from groups that differ, and elsewhere from the rules that were broken", async () => {
    const { groups, update } = (await (await learnerOf({ penalty: 0.3, groupSize: 2 })).learner.step(never))!;
    const violators = (group: StepGroup): number =>
      group.episodes.filter(({ episode }) => (episode.grade?.metrics["ruleViolations"] ?? 0) > 0).length;
    const dead = groups.filter(({ hasZeroVariance }) => hasZeroVariance);
    const live = groups.length - dead.length;
    const priced = dead.reduce((sum, group) => sum + violators(group), 0);
    expect(Math.min(live, priced)).toBeGreaterThan(0);
    expect(update!.samples).toBe(live * 2 + priced);
  });

  test("stops when the engine's weights are not those that are trained, and learns nothing of such samples", async () => {
    const { learner, engine, trainer } = await learnerOf();
    const other = trainer.weights().map((weight) => weight * 1.02);
    await engine.updateWeights(other, "step-0");
    const failed = await learner.step(never).catch((error: unknown) => error);
    expect(failed).toBeInstanceOf(DisagreementError);
    expect(String(failed)).toContain("Cannot train at step 1: the logprobs of sampling and training differ by");
    expect(learner.state.step).toBe(0);
    await engine.updateWeights(trainer.weights(), "another");
    await expect(learner.step(never)).rejects.toThrow(
      'was sampled with weights "another", but weights "step-0" are being trained',
    );
  });

  test("tells behaviours of outside programs apart by the calls that they were answered with", async () => {
    const step = (await (await learnerOf()).learner.step(never))!;
    let count = 0;
    const sessions = step.groups.map((group) => ({
      ...group,
      episodes: group.episodes.map(({ episode, ...rest }) => {
        const name = ["look_up", "decline"][count++ % 2]!;
        const toolCalls = [{ id: "call-0", name, argumentsText: "{}" }];
        const action = { text: "", reasoning: null, content: "", toolCalls, problems: [], isTerminated: true };
        const exchange: EpisodeEvent = {
          type: "exchange",
          turn: 0,
          call: 0,
          dialect: "chat",
          digest: "",
          basis: null,
          messages: [],
          tools: [],
          action,
          continues: null,
          ignored: [],
          response: null,
        };
        return { ...rest, episode: { ...episode, events: [exchange] } };
      }),
    }));
    expect(stepMetrics({ ...step, groups: sessions })["commonest_behaviour"]).toBeCloseTo(0.5);
  });

  test("a step that is aborted changes nothing", async () => {
    const { learner, trainer } = await learnerOf();
    const before = trainer.weights();
    const controller = new AbortController();
    const step = learner.step(controller.signal);
    controller.abort();
    expect(await step).toBeNull();
    expect(trainer.weights()).toEqual(before);
    expect(learner.state.step).toBe(0);
  });
});
