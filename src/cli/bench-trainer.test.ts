import { describe, expect, test } from "vitest";
import { createManualClock } from "../lib/clock.test-helper.ts";
import { createTestCli } from "./cli.test-helper.ts";
import { fasterClock } from "./simulation/simulated-parts.ts";

describe("bench trainer", () => {
  test("waits for batches, trains every token once, and keeps within the staleness", async () => {
    const { run } = await createTestCli();
    const flags = ["--steps", "3", "--batch-groups", "2", "--group-size", "2", "--concurrency", "8"];
    const times = ["--step-seconds", "5", "--update-seconds", "1", "--engine-seconds", "1", "--user-seconds", "0.5"];
    const { code, stdout } = await run("bench", "trainer", ...flags, ...times, "--speed", "100");
    expect(code).toBe(0);
    const rows = stdout.split("\n").flatMap((line) => (/^ +\d/.test(line) ? [line.trim().split(/ +/)] : []));
    expect(rows.map(([step]) => step)).toEqual(["1", "2", "3"]);
    for (const [, waited, groups, tokens, , most] of rows) {
      expect(Number(waited)).toBeGreaterThanOrEqual(0);
      expect(groups).toBe("2");
      expect(Number(tokens?.replace(",", ""))).toBeGreaterThan(0);
      expect(Number(most)).toBeLessThanOrEqual(1);
    }
    expect(stdout).toMatch(/trainer waited +\d+\.\d %/);
  });

  test("says at once that it was interrupted, and reports what it has", async () => {
    const { run, drain } = await createTestCli();
    // A step that would take a day.
    const running = run("bench", "trainer", "--step-seconds", "90000", "--speed", "1");
    setTimeout(() => drain.abort(), 200);
    const { code, stderr } = await running;
    expect([code, stderr]).toEqual([
      130,
      expect.stringContaining("Interrupted: the steps that were made are reported."),
    ]);
  });

  test.each([
    [["trainer", "--steps", "0"], 'Cannot use --steps: it is "0", expected a whole number of at least 1.'],
    [["trainer", "--spread", "wide"], 'Cannot use --spread: it is "wide", expected a number of at least 0.'],
    [["everything"], 'Cannot bench "everything": there is trainer'],
  ])("says what is wrong with %j", async (argv, message) => {
    const { run } = await createTestCli();
    const { code, stderr } = await run("bench", ...argv);
    expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
  });
});

test("fasterClock() shortens what is waited for and lengthens what is measured", async () => {
  const manual = createManualClock();
  const clock = fasterClock(10, manual);
  let isOver = false;
  void clock.sleep(1000).then(() => (isOver = true));
  await manual.advance(99);
  expect([isOver, clock.now()]).toEqual([false, 990]);
  await manual.advance(1);
  expect(isOver).toBe(true);
});
