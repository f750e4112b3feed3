// The contract of queues, as checks that every implementation must pass. Each rejects with an
// `AssertionError` if the contract is broken. The harness controls time: a clock that is advanced,
// or a short lease that passes in real time.

import assert from "node:assert/strict";
import { type EventCounts, freeUsage } from "../core/index.ts";
import type {
  Control,
  CoordinatorHandlers,
  Job,
  JobQueue,
  Lease,
  Receipt,
  RunState,
  WorkerHandlers,
  WorkerQueue,
  WorkerReport,
} from "./job-queue.ts";

/** A queue for one test only. */
export type OpenQueue = {
  /** Connects a coordinator; a second call connects another coordinator of the same queue. */
  coordinate(handlers: CoordinatorHandlers): Promise<JobQueue>;
  connect(handlers: WorkerHandlers): Promise<WorkerQueue>;
  /** Lets the duration of a lease pass this many times. */
  passLeases(leases: number): Promise<void>;
  /**
   * Makes the queue forget everything, like a broker whose disk was wiped; `null` if it lives in
   * the coordinator.
   */
  readonly forget: (() => Promise<void>) | null;
  close(): Promise<void>;
};

export interface QueueHarness {
  open(): Promise<OpenQueue>;
  /** Reason why a queue does not survive its coordinator; `null` if it does. */
  readonly mortal: string | null;
}

export type QueueCheck = { readonly name: string; readonly skip: string | null; readonly run: () => Promise<void> };

export function jobOf(episodeId: string, changes: Partial<Job> = {}): Job {
  return {
    runId: "run-1",
    fence: 1,
    episodeId,
    groupId: episodeId.split("#")[0]!,
    sampleIndex: 0,
    split: "train",
    taskIndex: 3,
    contentHash: "c".repeat(64),
    seed: 7,
    sampling: null,
    engineUrl: null,
    shards: null,
    ...changes,
  };
}

const details: Receipt["details"] = {
  failure: null,
  ending: null,
  metrics: { größe: 1.5 },
  weightSpans: [{ dispatch: null, reply: "v1" }],
  samples: 1,
  trainedTokens: 8,
  dropped: { "discarded-turn": 1 },
};
const counts: EventCounts = {
  turns: 2,
  sampledTokens: 9,
  recordedTurns: 0,
  recordedSampledTokens: 0,
  promptTokens: 40,
  retries: 0,
  spelledTokens: 0,
  unlikelyTokens: 0,
  cutResults: 0,
  closeFailures: 0,
  problems: {},
  deviations: {},
  agentUsage: freeUsage,
  userUsage: { ...freeUsage, cost: null },
  judgeUsage: freeUsage,
};
/** The store defines `place` and the other fields of the entry. */
export function receiptOf({ runId, fence, episodeId, groupId, sampleIndex }: Job, worker = "w-1"): Receipt {
  const place = { shard: worker, offset: 17, length: 400, crc32: "0123abcd" };
  const entry = { id: episodeId, groupId, sampleIndex, reward: 0.5, place };
  return { runId, fence, episodeId, worker, entry, details, counts, origin: "new" };
}

export function reportOf(worker: string, changes: Partial<WorkerReport> = {}): WorkerReport {
  return {
    worker,
    version: "1",
    phase: "working",
    reason: null,
    capacity: 4,
    held: 0,
    callsInFlight: 0,
    observed: { calls: 0, sampledTokens: 0, overloads: 0 },
    unfinished: { turns: 0, sampledTokens: 0 },
    ...changes,
  };
}

export function stateOf(changes: Partial<RunState> = {}): RunState {
  return {
    runId: "run-1",
    fence: 1,
    revision: 1,
    version: "1",
    settings: '{"env":"bookshop"}',
    phase: "running",
    weightVersion: null,
    workers: 1,
    ...changes,
  };
}

type Coordinator = {
  readonly queue: JobQueue;
  readonly receipts: Receipt[];
  readonly reports: WorkerReport[];
  forgotten: number;
};

type Worker = { readonly queue: WorkerQueue; readonly controls: Control[] };

/** Waits for an effect of messages. */
async function until(what: string, holds: () => boolean, timeoutMs = 10_000): Promise<void> {
  const end = performance.now() + timeoutMs;
  while (!holds()) {
    if (performance.now() > end) assert.fail(`${what} within ${timeoutMs} ms`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** Takes until it has this many leases. */
async function take(queue: WorkerQueue, count: number): Promise<Lease[]> {
  const leases: Lease[] = [];
  while (leases.length < count) leases.push(...(await queue.take(count - leases.length)));
  return leases;
}

const idsOf = (leases: readonly Lease[]): string[] => leases.map(({ job }) => job.episodeId).toSorted();

/** The checks for one queue. */
export function queueConformance(harness: QueueHarness): readonly QueueCheck[] {
  const checks: QueueCheck[] = [];
  const check = (name: string, body: (world: World) => Promise<void>, skip: string | null = null): void => {
    const run = async (): Promise<void> => {
      const open = await harness.open();
      try {
        await body(worldOf(open));
      } finally {
        await open.close();
      }
    };
    checks.push({ name, skip, run });
  };

  check(
    "a job is delivered as it was submitted, and its receipt arrives as it was sent",
    async ({ coordinator, worker }) => {
      const { queue, receipts } = await coordinator();
      const { queue: side } = await worker();
      const job = jobOf("tâche:\n1#0", {
        sampling: '{"temperature":0.5}',
        engineUrl: "http://[::1]:30000",
        shards: "/a b",
      });
      await queue.submit(job);
      const [lease] = await take(side, 1);
      assert.deepEqual(lease!.job, job);
      assert.equal(lease!.delivery, 1);
      await lease!.done(receiptOf(job));
      await until("the receipt arrives", () => receipts.length === 1);
      assert.deepEqual(receipts, [receiptOf(job)]);
    },
  );

  check(
    "a taker waits for jobs, gets at most as many as it takes, and stops waiting with its signal",
    async ({ coordinator, worker }) => {
      const { queue } = await coordinator();
      const { queue: side } = await worker();
      const taking = take(side, 1);
      await queue.submit(jobOf("a#0"));
      assert.deepEqual(idsOf(await taking), ["a#0"]);
      for (const id of ["b#0", "b#1", "b#2"]) await queue.submit(jobOf(id));
      const some = await side.take(2);
      assert.ok(some.length === 1 || some.length === 2);
      await take(side, 3 - some.length);
      const stop = new AbortController();
      const waiting = side.take(1, { signal: stop.signal });
      stop.abort();
      assert.deepEqual(await waiting, []);
    },
  );

  check("jobs go to one worker each while their leases hold", async ({ coordinator, worker, open }) => {
    const { queue, receipts } = await coordinator();
    const workers = [await worker("w-1"), await worker("w-2")];
    const ids = Array.from({ length: 200 }, (_, index) => `task ${index}#0`);
    await Promise.all(ids.map((id) => queue.submit(jobOf(id))));
    const taken: string[] = [];
    await Promise.all(
      workers.map(async ({ queue: side }, place) => {
        while (taken.length < ids.length) {
          const stop = new AbortController();
          const timer = setTimeout(() => stop.abort(), 500);
          const leases = await side.take(8, { signal: stop.signal });
          clearTimeout(timer);
          taken.push(...idsOf(leases));
          await Promise.all(leases.map((lease) => lease.done(receiptOf(lease.job, `w-${place + 1}`))));
        }
      }),
    );
    assert.deepEqual(taken.toSorted(), ids.toSorted());
    await until("all receipts arrive", () => new Set(receipts.map(({ entry }) => entry["id"])).size === ids.length);
    await open.passLeases(2);
    const stop = AbortSignal.timeout(300);
    assert.deepEqual(await workers[0]!.queue.take(8, { signal: stop }), []);
  });

  check("a job that is given back is delivered again", async ({ coordinator, worker }) => {
    const { queue } = await coordinator();
    const [one, two] = [await worker("w-1"), await worker("w-2")];
    await queue.submit(jobOf("a#0"));
    const [lease] = await take(one.queue, 1);
    await lease!.giveBack("the disk is full");
    const [again] = await take(two.queue, 1);
    assert.equal(again!.job.episodeId, "a#0");
    assert.equal(again!.delivery, 2);
  });

  check(
    "a lease that is not extended runs out, and its late receipt still arrives",
    async ({ coordinator, worker, open }) => {
      const { queue, receipts } = await coordinator();
      const [one, two] = [await worker("w-1"), await worker("w-2")];
      await queue.submit(jobOf("a#0"));
      const [lease] = await take(one.queue, 1);
      await open.passLeases(2);
      const [again] = await take(two.queue, 1);
      assert.ok(again!.delivery > 1);
      await again!.done(receiptOf(again!.job, "w-2"));
      await lease!.extend();
      await lease!.done(receiptOf(lease!.job, "w-1"));
      await until("both receipts arrive", () => receipts.length >= 2);
      assert.deepEqual(new Set(receipts.map(({ worker: name }) => name)), new Set(["w-1", "w-2"]));
    },
  );

  check("a lease that is extended holds", async ({ coordinator, worker, open }) => {
    const { queue } = await coordinator();
    const [one, two] = [await worker("w-1"), await worker("w-2")];
    await queue.submit(jobOf("a#0"));
    const [lease] = await take(one.queue, 1);
    for (let part = 0; part < 8; part++) {
      await open.passLeases(1 / 3);
      assert.equal(await lease!.extend(), true);
    }
    assert.deepEqual(await two.queue.take(1, { signal: AbortSignal.timeout(200) }), []);
  });

  check("a cancelled job is not delivered, and who holds one is told", async ({ coordinator, worker }) => {
    const { queue } = await coordinator();
    const { queue: side, controls } = await worker();
    await queue.submit(jobOf("held#0"));
    await take(side, 1);
    for (const id of ["b#0", "b#1", "c#0"]) await queue.submit(jobOf(id));
    await queue.cancel("run-1", ["held#0", "b#0", "b#1", "unknown#0"]);
    const cancelled = (): string[] =>
      controls.flatMap((control) => (control.type === "cancel" ? control.episodeIds : []));
    await until("the holder is told", () => cancelled().includes("held#0"));
    const rest: string[] = [];
    for (;;) {
      const leases = await side.take(4, { signal: AbortSignal.timeout(500) });
      if (leases.length === 0) break;
      // A queue that has begun to deliver may notify the worker instead.
      rest.push(...idsOf(leases).filter((id) => !cancelled().includes(id)));
    }
    assert.deepEqual(rest, ["c#0"]);
  });

  check("a job that is submitted again while it waits replaces the one before", async ({ coordinator, worker }) => {
    const { queue } = await coordinator();
    await queue.submit(jobOf("a#0"));
    await queue.submit(jobOf("a#0", { fence: 2 }));
    const { queue: side } = await worker();
    const [lease] = await take(side, 1);
    assert.equal(lease!.job.fence, 2);
    assert.deepEqual(await side.take(1, { signal: AbortSignal.timeout(200) }), []);
  });

  check(
    "every worker learns the state of a run, who comes later before its jobs, and nothing of a run that has ended",
    async ({ coordinator, worker }) => {
      const { queue } = await coordinator();
      const early = await worker("w-1");
      const ended = stateOf({ runId: "run-0" });
      await queue.broadcast({ type: "run", state: ended });
      await queue.broadcast({ type: "run", state: { ...ended, phase: "ended", revision: 2 } });
      await queue.broadcast({ type: "run", state: stateOf() });
      const paused = stateOf({ revision: 2, phase: "paused", weightVersion: "7" });
      await queue.broadcast({ type: "run", state: paused });
      const last = (controls: readonly Control[]): RunState | null =>
        controls.reduce<RunState | null>(
          (found, control) => (control.type === "run" && control.state.runId === "run-1" ? control.state : found),
          null,
        );
      await until("the early worker knows", () => last(early.controls)?.revision === 2);
      await queue.submit(jobOf("a#0"));
      const late = await worker("w-2");
      await take(late.queue, 1);
      assert.deepEqual(last(late.controls), paused);
      assert.ok(late.controls.every((control) => control.type === "run" && control.state.runId === "run-1"));
    },
  );

  check(
    "gathers when every worker has obeyed, and names those that have not in time",
    async ({ coordinator, worker }) => {
      const { queue } = await coordinator();
      const obey: (() => void)[] = [];
      const slow = (): Promise<void> => new Promise((resolve) => obey.push(resolve));
      await worker("w-1");
      await worker("w-2", slow);
      await until("both are known", () => queue.workers.length === 2);
      const control: Control = { type: "run", state: stateOf({ phase: "paused" }) };
      const early = await queue.gather(control, { timeoutMs: 300 });
      assert.deepEqual(early, { acknowledged: ["w-1"], missing: ["w-2"] });
      const gathering = queue.gather(control, { timeoutMs: 10_000 });
      await until("the control has arrived", () => obey.length >= 2);
      for (const resolve of obey) resolve();
      const { acknowledged, missing } = await gathering;
      assert.deepEqual([acknowledged.toSorted(), missing], [["w-1", "w-2"], []]);
    },
  );

  check(
    "does not wait for a worker that has left, nor for one that is silent for a lease",
    async ({ coordinator, worker, open }) => {
      const { queue } = await coordinator();
      const never = (): Promise<void> => new Promise(() => undefined);
      const leaving = await worker("w-1", never);
      await worker("w-2", never);
      await until("both are known", () => queue.workers.length === 2);
      const control: Control = { type: "run", state: stateOf({ phase: "paused" }) };
      const gathering = queue.gather(control, { timeoutMs: 600_000 });
      await leaving.queue.report(reportOf("w-1", { phase: "left" }));
      await open.passLeases(2);
      assert.deepEqual(await gathering, { acknowledged: [], missing: [] });
      assert.deepEqual(queue.workers, []);
    },
  );

  check("gives back what a worker holds that closes", async ({ coordinator, worker }) => {
    const { queue } = await coordinator();
    const [one, two] = [await worker("w-1"), await worker("w-2")];
    for (const id of ["a#0", "a#1"]) await queue.submit(jobOf(id));
    await take(one.queue, 2);
    await one.queue.close();
    assert.deepEqual(idsOf(await take(two.queue, 2)), ["a#0", "a#1"]);
  });

  check(
    "another coordinator gets the receipts that the one before has not taken",
    async ({ open, coordinator, worker }) => {
      const never = (): Promise<void> => new Promise(() => undefined);
      const first = await open.coordinate({ ...silent, onReceipt: never });
      const { queue: side } = await worker();
      await first.submit(jobOf("a#0"));
      const [lease] = await take(side, 1);
      await lease!.done(receiptOf(lease!.job));
      await first.close();
      const { receipts } = await coordinator();
      await open.passLeases(1);
      await until("the receipt arrives", () => receipts.length > 0, 30_000);
      assert.deepEqual(receipts[0], receiptOf(jobOf("a#0")));
    },
    harness.mortal,
  );

  check(
    "a queue that forgets says so, and takes everything again",
    async ({ open, coordinator, worker }) => {
      const one = await coordinator();
      const { queue: side } = await worker();
      await one.queue.submit(jobOf("a#0"));
      await open.forget!();
      await until("the coordinator is told", () => one.forgotten > 0, 60_000);
      await one.queue.broadcast({ type: "run", state: stateOf() });
      await one.queue.submit(jobOf("a#0", { fence: 2 }));
      let [lease] = await take(side, 1);
      // A job that was already in flight may still arrive.
      if (lease!.job.fence === 1) [lease] = await take(side, 1);
      await lease!.done(receiptOf(lease!.job));
      await until("the receipt arrives", () => one.receipts.some(({ fence }) => fence === 2), 60_000);
    },
    harness.mortal,
  );

  return checks;
}

const silent: CoordinatorHandlers = {
  onReceipt: () => undefined,
  onReport: () => undefined,
  onForgotten: () => undefined,
  onNotice: () => undefined,
};

type World = {
  readonly open: OpenQueue;
  readonly coordinator: () => Promise<Coordinator>;
  /** Connects a worker that has reported itself. */
  readonly worker: (name?: string, obey?: () => Promise<void>) => Promise<Worker>;
};

function worldOf(open: OpenQueue): World {
  return {
    open,
    coordinator: async () => {
      const seen = { receipts: [] as Receipt[], reports: [] as WorkerReport[], forgotten: 0 };
      const queue = await open.coordinate({
        ...silent,
        onReceipt: (receipt) => void seen.receipts.push(receipt),
        onReport: (report) => void seen.reports.push(report),
        onForgotten: () => void seen.forgotten++,
      });
      return Object.assign(seen, { queue });
    },
    worker: async (name = "w-1", obey) => {
      const controls: Control[] = [];
      const queue = await open.connect({
        onControl: (control) => {
          controls.push(control);
          return obey?.();
        },
        onNotice: () => undefined,
      });
      await queue.report(reportOf(name));
      return { queue, controls };
    },
  };
}
