import pc from "picocolors";
import { describe, expect, test } from "vitest";

import { ActivityCounter } from "../../engines/llama-cpp/activity.ts";
import { TotalsCounter } from "../../rollout/run-totals.ts";
import { progressBlock } from "./progress-display.ts";
import { progressLine, type RunProgress } from "./run-table.ts";

let now = 0;
function totalsAfter(seconds: number) {
  now = 0;
  const counter = new TotalsCounter({ groups: 4, groupSize: 2, target: null }, () => now);
  now = seconds * 1000;
  return counter.totals({ concurrency: 4 });
}

describe("progress of a slow model", () => {
  test("shows the state of the newest turn, whose tokens count before it ends", () => {
    const counter = new ActivityCounter();
    const shown = (): string => progressLine({ totals: totalsAfter(40), activity: counter.current });
    expect(shown()).toContain("0.00 turns/s, 0.00 tokens/s, 0 failed, 0 prompt tokens computed");
    const [first, second] = [counter.begin(1310), counter.begin(90)];
    first.prompt(512);
    expect(shown()).toContain("512 prompt tokens computed, newest turn reads, 512 of 1,310 prompt tokens");
    second.prompt(90);
    for (let count = 0; count < 3; count++) second.token();
    expect(shown()).toContain(
      "0.07 tokens/s, 0 failed, 602 prompt tokens computed, newest turn answers, 3 tokens so far",
    );
    second.end();
    expect(shown()).toContain("newest turn reads, 512 of 1,310 prompt tokens");
    first.end();
    expect(shown()).toMatch(/602 prompt tokens computed, 40.0 s$/);
  });

  test("never shows the same block twice within two seconds", () => {
    const blockAt = (seconds: number): string => {
      const progress: RunProgress = { totals: totalsAfter(seconds), activity: null };
      return progressBlock(progress, pc.createColors(false));
    };
    for (const seconds of [0, 30, 200, 8000]) expect(blockAt(seconds + 2)).not.toBe(blockAt(seconds));
  });

  test("estimates the time that is left once an episode has ended", () => {
    const totals = totalsAfter(60);
    expect(progressLine({ totals, activity: null })).not.toContain("left");
    const later = { ...totals, episodesFinished: 2, episodesStarted: 4 };
    expect(progressLine({ totals: later, activity: null })).toContain("about 3 min 0 s left");
    const resumed = { ...later, recordedEpisodes: 1 };
    expect(progressLine({ totals: resumed, activity: null })).toContain("about 6 min 0 s left");
    expect(progressLine({ totals: { ...totals, episodesFinished: 8 }, activity: null })).not.toContain("left");
  });
});
