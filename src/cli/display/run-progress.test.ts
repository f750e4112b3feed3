import pc from "picocolors";
import { describe, expect, test } from "vitest";

import type { EngineActivity } from "../../core/index.ts";
import type { RunTotals } from "../../rollout/loop.ts";
import { progressBlock } from "./progress-display.ts";
import { progressLine } from "./run-table.ts";

/** Totals of a run of eight episodes of which nothing has ended, as far as its progress reads them. */
function totalsAfter(seconds: number, changed: Partial<RunTotals> = {}): RunTotals {
  const counts = { episodesPlanned: 8, episodesStarted: 4, episodesFinished: 0, recordedEpisodes: 0, groupsKept: 0, graded: 0, gradedWithoutTurn: 0, turns: 0, sampledTokens: 0, recordedTurns: 0, recordedSampledTokens: 0, retries: 0 }; // prettier-ignore
  const rest = { groupsTarget: null, passRate: null, meanReward: null, problems: {}, outcomes: { failed: 0 } };
  return { ...counts, ...rest, elapsedMs: seconds * 1000, ...changed } as RunTotals;
}

describe("progressLine()", () => {
  test("has a dash where no episode began, and groups where a number of them is to be kept", () => {
    const ended = { episodesFinished: 8, graded: 8, gradedWithoutTurn: 8 };
    expect(progressLine({ totals: totalsAfter(1, ended), activity: null })).toContain("8/8 episodes, pass –");
    const kept = { episodesFinished: 8, groupsKept: 2, groupsTarget: 4 };
    const line = progressLine({ totals: totalsAfter(10, kept), activity: null });
    expect(line).toContain("2/4 groups kept, 8 episodes");
    expect(line).toContain("about 10.0 s left");
  });
});

describe("progress of a slow model", () => {
  test("shows the state of the newest turn, whose tokens count before it ends", () => {
    const shown = (activity: EngineActivity): string => progressLine({ totals: totalsAfter(40), activity });
    expect(shown({ promptTokens: 0, sampledTokens: 0, newest: null })).toBe(
      "0/8 episodes, pass –, 0.00 turns/s, 0.00 tokens/s, 0 failed, 0 prompt tokens computed, 40.0 s",
    );
    const reading = { promptTokens: 512, ofPromptTokens: 1310, sampledTokens: 0 };
    expect(shown({ promptTokens: 512, sampledTokens: 0, newest: reading })).toContain(
      "512 prompt tokens computed, newest turn reads, 512 of 1,310 prompt tokens",
    );
    const answering = { promptTokens: 90, ofPromptTokens: 90, sampledTokens: 3 };
    expect(shown({ promptTokens: 602, sampledTokens: 3, newest: answering })).toContain(
      "0.07 tokens/s, 0 failed, 602 prompt tokens computed, newest turn answers, 3 tokens so far",
    );
  });

  test("never shows the same block or line twice within two seconds", () => {
    for (const seconds of [0, 30, 200, 8000]) {
      const [now, later] = [seconds, seconds + 2].map((at) => ({ totals: totalsAfter(at), activity: null }));
      expect(progressBlock(later!, pc.createColors(false))).not.toBe(progressBlock(now!, pc.createColors(false)));
      expect(progressLine(later!)).not.toBe(progressLine(now!));
    }
  });

  test("estimates the time that is left once an episode has ended", () => {
    const lineOf = (changed: Partial<RunTotals>) => progressLine({ totals: totalsAfter(60, changed), activity: null });
    expect(lineOf({})).not.toContain("left");
    expect(lineOf({ episodesFinished: 2 })).toContain("about 3 min 0 s left");
    expect(lineOf({ episodesFinished: 2, recordedEpisodes: 1 })).toContain("about 6 min 0 s left");
    expect(lineOf({ episodesFinished: 8 })).not.toContain("left");
  });
});
