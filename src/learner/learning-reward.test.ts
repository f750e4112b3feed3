import { expect, test } from "vitest";

import { groupAdvantages, isDead } from "./group-advantages.ts";
import { learningReward } from "./learning-reward.ts";

function episode(reward: number | null, metrics: Record<string, number> = {}) {
  return { reward, grade: reward === null ? null : { reward, metrics, log: "", info: new Map() } };
}

test("every broken rule has its price, and an unknown reward stays unknown", () => {
  expect(learningReward(episode(1), 0.3)).toBe(1);
  expect(learningReward(episode(0, { ruleViolations: 2 }), 0.3)).toBe(-0.6);
  expect(learningReward(episode(0, { ruleViolations: 2 }), 0)).toBe(0);
  expect(learningReward(episode(null), 0.3)).toBeNull();
});

test("failures that broke rules are worse than failures that broke none", () => {
  const rewards = [0, 1, 1].map((ruleViolations) => learningReward(episode(0, { ruleViolations }), 0.3)!);
  expect(isDead(rewards)).toBe(false);
  const [clean, broken] = groupAdvantages([rewards], { baseline: "group", normalize: true })[0]!;
  expect(clean).toBeGreaterThan(0);
  expect(broken).toBeLessThan(0);
});
