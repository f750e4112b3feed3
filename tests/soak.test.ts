// Many episodes against a server on which everything goes wrong. Whatever happens, every episode ends in exactly one outcome,
// no token is lost or trained twice, nothing is left running, and memory does not grow. They are played by
// soak/soak-child.mjs, from dist/.

import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { faultNames } from "../src/testing/index.ts";

const isFull = process.env["FULL"] === "1";
const tasks = isFull ? 5000 : 50;
const concurrency = isFull ? 256 : 64;
const marks = isFull ? [2000, 6000] : [100];
const episodes = tasks * 4;

type Memory = { readonly mark: number; readonly resident: number; readonly heap: number };
type Report = {
  readonly episodes: number;
  readonly outcomes: Readonly<Record<string, number>>;
  readonly wrong: readonly string[];
  readonly faults: Readonly<Record<string, number>>;
  readonly load: { readonly running: number; readonly waiting: number };
  readonly totals: { readonly episodesFinished: number };
  readonly memory: readonly Memory[];
};

describe("soak", () => {
  it(
    `${episodes} episodes at concurrency ${concurrency}, each fault at 5 %: one outcome each, every token accounted for`,
    { timeout: isFull ? 1_800_000 : 60_000 },
    async () => {
      const script = fileURLToPath(new URL("soak/soak-child.mjs", import.meta.url));
      const words = ["--expose-gc", script, String(tasks), String(concurrency), marks.join(",")];
      const { stdout } = await promisify(execFile)(process.execPath, words);
      const report = JSON.parse(stdout) as Report;

      expect(report.wrong).toEqual([]);
      expect(report.episodes).toBe(episodes);
      expect(report.totals.episodesFinished).toBe(episodes);
      expect(report.load).toEqual({ running: 0, waiting: 0 });
      // Every fault was met, and most episodes went on in spite of them.
      for (const fault of faultNames) expect(report.faults[fault], fault).toBeGreaterThan(0);
      expect(report.outcomes["completed"]).toBeGreaterThan(tasks);
      if (!isFull) return;
      const last = report.memory.at(-1)!;
      for (const marked of report.memory) process.stdout.write(`soak: ${shown(marked, last)}\n`);
      // Resident memory settles by then: V8 grants itself more room as it sees how much is thrown away.
      const settled = report.memory[1]!;
      expect(last.heap / settled.heap, "heap").toBeLessThanOrEqual(1.05);
      expect(last.resident / settled.resident, "resident").toBeLessThanOrEqual(1.05);
    },
  );
});

function shown({ mark, resident, heap }: Memory, last: Memory): string {
  const [mb, ofHeap] = [resident, heap].map((bytes) => (bytes / 1e6).toFixed(1));
  const [a, b] = [last.resident / resident, last.heap / heap].map((ratio) => ratio.toFixed(3));
  return `after ${mark} episodes ${mb} MB resident and ${ofHeap} MB of heap; at the end ${a} and ${b} times as much`;
}
