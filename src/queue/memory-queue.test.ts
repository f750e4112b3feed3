import { describe, expect, it, test } from "vitest";
import { createManualClock } from "../lib/clock.test-helper.ts";
import {
  type CoordinatorHandlers,
  createMemoryQueue,
  type MemoryQueue,
  readControl,
  readJob,
  readOrNotice,
  readReceipt,
  readReport,
} from "./index.ts";
import { jobOf, queueConformance, receiptOf, reportOf, stateOf } from "./queue-conformance.test-helper.ts";

const leaseMs = 60_000;

describe("the queue in memory", () => {
  const checks = queueConformance({
    mortal: "it lives in its coordinator",
    open: async () => {
      const clock = createManualClock();
      let queue: MemoryQueue | null = null;
      const stop = { real: null as NodeJS.Timeout | null };
      return {
        coordinate: async (handlers: CoordinatorHandlers) => {
          queue = createMemoryQueue(handlers, { leaseMs, clock });
          // Advances the clock, so that deadlines pass as for queues in real time.
          stop.real = setInterval(() => void clock.advance(20), 20);
          return queue;
        },
        connect: async (handlers) => queue!.connect(handlers),
        passLeases: (leases: number) => clock.advance(leases * leaseMs),
        forget: null,
        close: async () => {
          if (stop.real !== null) clearInterval(stop.real);
          await queue?.close();
          if (clock.sleeping > 0) throw new Error(`${clock.sleeping} timers are left behind.`);
        },
      };
    },
  });
  test.for(checks)("$name", async ({ skip: reason, run }, { skip }) => {
    if (reason !== null) skip(reason);
    await run();
  });
});

describe("messages", () => {
  const [job, receipt, report, state] = [jobOf("a#0"), receiptOf(jobOf("a#0")), reportOf("w-1"), stateOf()];

  it("come back as they were written", () => {
    const over = (value: unknown): unknown => JSON.parse(JSON.stringify(value));
    expect(readJob(over(job))).toEqual(job);
    expect(readReceipt(over(receipt))).toEqual(receipt);
    expect(readReport(over(report))).toEqual(report);
    expect(readControl(over({ type: "run", state }))).toEqual({ type: "run", state });
    const sizes = [job, receipt].map((one) => JSON.stringify(one).length);
    expect(sizes.every((size) => size < 1400)).toBe(true);
  });

  it.each([
    ["no object", null],
    ["a worker that is a path", { ...receipt, worker: "../../etc" }],
    ["a worker that is a hidden folder", { ...receipt, worker: ".." }],
    ["an entry that is a list", { ...receipt, entry: [] }],
    ["a failure that is none", { ...receipt, details: { ...receipt.details, failure: {} } }],
    ["negative tokens", { ...receipt, details: { ...receipt.details, trainedTokens: -1 } }],
    ["a metric that no JSON has", { ...receipt, details: { ...receipt.details, metrics: { a: NaN } } }],
    ["a fence that is none", { ...receipt, fence: "1" }],
    [
      "thousands of names",
      {
        ...receipt,
        counts: {
          ...receipt.counts,
          problems: Object.fromEntries(Array.from({ length: 5000 }, (_, i) => [`n${i}`, 1])),
        },
      },
    ],
  ])("refuses a receipt with %s", (_, hostile) => {
    expect(() => readReceipt(hostile)).toThrow(/^Cannot read a receipt: /);
  });

  it("refuses jobs, reports and controls that are none", () => {
    for (const hostile of [{}, [], "job", { ...job, fence: 0.5 }, { ...job, seed: 1e300 }]) {
      expect(() => readJob(hostile)).toThrow("Cannot read a job");
    }
    expect(() => readReport({ ...report, worker: "a/b" })).toThrow("worker");
    expect(() => readControl({ type: "run", state: { ...state, workers: 0 } })).toThrow("workers");
    expect(() => readControl({ type: "shell", command: "rm" })).toThrow("Cannot read a control message");
  });

  it("drops what is none with a notice", () => {
    const notices: string[] = [];
    expect(readOrNotice(readJob, job, (message) => notices.push(message))).toEqual(job);
    expect(notices).toEqual([]);
    expect(readOrNotice(readJob, null, (message) => notices.push(message))).toBe(null);
    expect(notices).toEqual([
      expect.stringMatching(/^Notice: a message of the queue was dropped. Cannot read a job: /),
    ]);
  });
});
