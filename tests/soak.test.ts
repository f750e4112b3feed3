// Many episodes against a server on which everything goes wrong. Under all faults every episode
// ends in exactly one outcome, no token is lost or trained twice, nothing is left running, and
// memory does not grow. The episodes are run by soak/soak-child.mjs, from dist/.

import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { faultNames } from "../src/testing/index.ts";

const isFull = process.env["FULL"] === "1";
const tasks = isFull ? 500 : 50;
/** Passes over the tasks, as in training. */
const passes = isFull ? 10 : 1;
const concurrency = isFull ? 256 : 64;
const mark = isFull ? 2000 : 100;
const episodes = tasks * passes * 4;
/**
 * V8 and the allocator keep the memory of garbage, and more of it, the faster a process has become:
 * by default resident memory grows where our own objects do not, and would hide a leak.
 * docs/scale.md has the figures of both.
 */
const thrift = { flags: ["--heap-growing-percent=50"], env: { MALLOC_ARENA_MAX: "2" } };

type Report = {
  readonly episodes: number;
  readonly outcomes: Readonly<Record<string, number>>;
  readonly wrong: readonly string[];
  readonly faults: Readonly<Record<string, number>>;
  readonly load: { readonly running: number; readonly waiting: number };
  readonly totals: { readonly episodesFinished: number };
  /** Resident memory in bytes. */
  readonly marked: number;
  readonly last: number;
};

describe("soak", () => {
  it(
    `${episodes} episodes at concurrency ${concurrency}, each fault at 5 %: one outcome each, every token accounted for`,
    { timeout: isFull ? 1_800_000 : 60_000 },
    async () => {
      const script = fileURLToPath(new URL("soak/soak-child.mjs", import.meta.url));
      const words = [...thrift.flags, script, ...[tasks, passes, concurrency, mark].map(String)];
      const { stdout } = await promisify(execFile)(process.execPath, words, { env: { ...process.env, ...thrift.env } });
      const report = JSON.parse(stdout) as Report;

      expect(report.wrong).toEqual([]);
      expect(report.episodes).toBe(episodes);
      expect(report.totals.episodesFinished).toBe(episodes);
      expect(report.load).toEqual({ running: 0, waiting: 0 });
      // Every fault occurred, and most episodes continued despite them.
      for (const fault of faultNames) expect(report.faults[fault], fault).toBeGreaterThan(0);
      expect(report.outcomes["completed"]).toBeGreaterThan(episodes / 2);
      if (!isFull) return;
      const { marked, last } = report;
      const [megabytes, ratio] = [(marked / 1e6).toFixed(0), (last / marked).toFixed(3)];
      process.stdout.write(
        `soak: ${megabytes} MB resident after ${mark} episodes, ${ratio} times as much at the end\n`,
      );
      // A leak of a few hundred bytes per episode would be detected.
      expect(last / marked, "resident memory").toBeLessThanOrEqual(1.05);
    },
  );
});
