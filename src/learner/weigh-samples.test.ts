import { describe, expect, test } from "vitest";

import type { Episode, Sample } from "../core/index.ts";
import type { FinishedEpisode } from "../rollout/index.ts";
import { weighSamples, type WeighOptions } from "./group-advantages.ts";

/** An episode with only the fields that are read. */
function played(id: string, reward: number | null, ruleViolations = 0): FinishedEpisode {
  const grade = reward === null ? null : { reward, metrics: { ruleViolations }, log: "", info: new Map() };
  const episode = { id, reward, grade } as Partial<Episode> as Episode;
  const samples = [{ id } as Partial<Sample> as Sample];
  return { episode, result: { samples, dropped: [] }, origin: "new" };
}

function weigh(episodes: readonly FinishedEpisode[], options: Partial<WeighOptions> = {}): Record<string, number> {
  const weighted = weighSamples([{ episodes }], { baseline: "group", normalize: false, penalty: 0.3, ...options });
  return Object.fromEntries(weighted.map(({ sample, advantage }) => [sample.id, Number(advantage)]));
}

describe("weighSamples()", () => {
  test("a broken rule takes its price off the advantage", () => {
    const group = [played("pass", 1), played("fail", 0), played("broke two", 0, 2)];
    const advantages = weigh(group);
    expect(advantages["pass"]).toBeCloseTo(2 / 3, 6);
    expect(advantages["fail"]).toBeCloseTo(-1 / 3, 6);
    expect(advantages["broke two"]).toBeCloseTo(-1 / 3 - 0.6, 6);
    expect(weigh(group, { penalty: 0 })["broke two"]).toBeCloseTo(-1 / 3, 6);
  });

  test("also where all of a group broke one, and then what broke none is no better for it", () => {
    expect(weigh([played("a", 0, 1), played("b", 0, 1)])).toEqual({ a: -0.3, b: -0.3 });
    expect(weigh([played("a", 0, 1), played("b", 0)])).toEqual({ a: -0.3 });
    expect(weigh([played("a", 0, 1), played("b", 0)], { penalty: 0 })).toEqual({});
  });

  test("an episode that was not graded is not compared", () => {
    expect(weigh([played("a", 1), played("b", 0), played("c", null)])).toEqual({ a: 0.5, b: -0.5 });
  });
});
