import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { AttributedError, type Task } from "../../core/index.ts";
import { createManualClock, type ManualClock } from "../../lib/clock.test-helper.ts";
import { createMemoryQueue, type Lease, type MemoryQueue, type Receipt, type WorkerReport } from "../../queue/index.ts";
import { createFileRunStore, EpisodeFiles, type FileRunStore, openShard, type ShardStore } from "../../store/index.ts";
import { dropZeroSignal, episodeSamples, type RolloutParts, runRollout } from "../index.ts";
import { passing, runnerOf, taskset, type Behaviour } from "../scripted-run.test-helper.ts";
import { Coordinator, type CoordinatorOptions } from "./coordinator.ts";
import { runWorker, type WorkerOptions, type WorkerRun } from "./run-worker.ts";

let folder = "";
let store: FileRunStore;
let clock: ManualClock;
let ticking: NodeJS.Timeout;
const closing: (() => Promise<unknown>)[] = [];
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "workers-"));
  store = createFileRunStore(join(folder, "run"), { hasShards: true, fsync: "never" });
  await store.begin(new Map());
  clock = createManualClock();
  // Advances the clock, so that episodes of the script take time.
  ticking = setInterval(() => void clock.advance(250), 5);
});
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
  clearInterval(ticking);
  await store.close(new Map());
  await rm(folder, { recursive: true });
});

const leaseMs = 60_000;
const behave = ({ index }: Task, sample: number): Behaviour => ({
  ...passing(),
  reward: (index + sample) % 2,
  turns: 3,
});
const plan = { taskset, taskIndexes: [0, 1, 2, 3], groupSize: 3, seed: 7 };
const groups = { filters: [dropZeroSignal()] };

type Running = { readonly coordinator: Coordinator; readonly queue: MemoryQueue; readonly notices: string[] };

async function coordinate(changes: Partial<CoordinatorOptions> = {}): Promise<Running> {
  const notices: string[] = [];
  const queues: MemoryQueue[] = [];
  const files = new EpisodeFiles(join(folder, "run"));
  const coordinator = await Coordinator.open({
    runId: "run",
    fence: 1,
    version: "1",
    settings: "{}",
    shards: join(folder, "run", "shards"),
    store,
    clock,
    open: async ({ id, place }) => {
      const episode = await files.episode(id, place);
      return { episode, result: episodeSamples(episode) };
    },
    onClose: () => files.close(),
    onNotice: (message) => notices.push(message),
    connect: (handlers) => {
      const queue = createMemoryQueue(handlers, { leaseMs, clock });
      queues.push(queue);
      return queue;
    },
    ...changes,
  });
  closing.push(() => coordinator.close());
  return { coordinator, queue: queues[0]!, notices };
}

type WorkerChanges = Partial<WorkerOptions> & { readonly run?: (run: WorkerRun) => WorkerRun };

async function work({ queue, notices }: Running, name: string, { run: change, ...changes }: WorkerChanges = {}) {
  const stop = new AbortController();
  const running = runWorker({
    name,
    version: "1",
    capacity: 4,
    clock,
    signal: stop.signal,
    onNotice: (message) => notices.push(message),
    connect: (handlers) => queue.connect(handlers),
    openRun: async () => {
      let shard = await openShard(join(folder, "run"), name, { fsync: "never" });
      const { runEpisode } = runnerOf(behave, clock);
      const run: WorkerRun = {
        get shard() {
          return shard;
        },
        callsInFlight: 0,
        task: (_split, index) => taskset.task(index),
        runEpisode,
        obey: () => Promise.resolve(),
        reopen: async () => {
          await shard.close();
          shard = await openShard(join(folder, "run"), name, { fsync: "never" });
        },
        close: () => shard.close(),
      };
      return change?.(run) ?? run;
    },
    ...changes,
  });
  closing.push(async () => {
    stop.abort();
    await running;
  });
  return { stop, running };
}

/** A run in this process only. */
async function alone() {
  const { runEpisode } = runnerOf(behave, clock);
  const records: unknown[] = [];
  const kept = { append: async () => undefined, appendGroup: async () => undefined };
  const options = { clock, groups, onGroup: (record: unknown) => records.push(record) };
  const { elapsedMs: _, ...totals } = await runRollout(plan, { runEpisode, store: kept }, options);
  return { totals, records };
}

async function together({ coordinator }: Running) {
  const records: unknown[] = [];
  const parts: RolloutParts = { runEpisode: coordinator.runEpisode, store };
  const options = { clock, groups, onGroup: (record: unknown) => records.push(record) };
  const { elapsedMs: _, ...totals } = await runRollout(plan, parts, options);
  return { totals, records };
}

const byIndex = (records: readonly unknown[]) =>
  (records as { readonly groupIndex: number }[]).toSorted((left, right) => left.groupIndex - right.groupIndex);

async function indexed(): Promise<{ id: string; place: { shard: string } }[]> {
  const text = await readFile(join(folder, "run", "index.jsonl"), "utf8");
  return text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as { id: string; place: { shard: string } });
}

test("two workers come to what one process comes to: groups, decisions, rewards and totals", async () => {
  const expected = await alone();
  const running = await coordinate();
  for (const name of ["w-1", "w-2"]) await work(running, name);
  const { totals, records } = await together(running);
  expect(totals).toEqual(expected.totals);
  expect(byIndex(records)).toEqual(byIndex(expected.records));
  const lines = await indexed();
  expect(new Set(lines.map(({ id }) => id)).size).toBe(12);
  expect(new Set(lines.map(({ place }) => place.shard))).toEqual(new Set(["w-1", "w-2"]));
});

const untilAborted = (signal: AbortSignal | undefined): Promise<never[]> =>
  new Promise((resolve) => signal?.addEventListener("abort", () => resolve([])));

test("a worker that was stopped for two leases comes too late, and its receipts change nothing", async () => {
  const expected = await alone();
  const running = await coordinate();
  const receipts: (() => Promise<void>)[] = [];
  let isStopped = false;
  // This worker takes jobs, never really extends their leases, and sends its receipts when
  // everything is done.
  await work(running, "stopped", {
    connect: (handlers) => {
      const side = running.queue.connect(handlers);
      return Object.create(side, {
        leaseMs: { value: 1e9 },
        closed: { value: side.closed },
        report: { value: () => side.report({ ...report, worker: "stopped" }) },
        close: { value: () => side.close() },
        take: {
          value: async (...given: Parameters<typeof side.take>) =>
            (await (isStopped ? untilAborted(given[1]?.signal) : side.take(...given))).map((lease) => ({
              ...lease,
              extend: async () => true,
              done: async (receipt: Receipt) => void receipts.push(() => lease.done(receipt)),
            })),
        },
      }) as typeof side;
    },
  });
  const ending = together(running);
  while (receipts.length < 4) await new Promise((resolve) => setTimeout(resolve, 5));
  isStopped = true;
  await work(running, "w-2");
  const { totals, records } = await ending;
  for (const send of receipts) await send();
  expect(totals).toMatchObject({ episodesFinished: 12, sampledTokens: expected.totals.sampledTokens });
  expect(byIndex(records)).toEqual(byIndex(expected.records));
  expect((await indexed()).every(({ place }) => place.shard === "w-2")).toBe(true);
  expect((await indexed()).length).toBe(12);
});

const report: Omit<WorkerReport, "worker"> = {
  version: "1",
  phase: "working",
  reason: null,
  capacity: 4,
  held: 0,
  callsInFlight: 0,
  observed: { calls: 0, sampledTokens: 0, overloads: 0 },
  unfinished: { turns: 0, sampledTokens: 0 },
};

test("a job that comes again to the worker that runs it waits for the first, and its episode is written once", async () => {
  const running = await coordinate();
  let [atOnce, most, runs] = [0, 0, 0];
  let seen: readonly Lease[] = [];
  await work(running, "w-1", {
    capacity: 30,
    connect: (handlers) => {
      const side = running.queue.connect(handlers);
      const take = side.take.bind(side);
      // Imitates a broker that has lost the lease: each job comes twice.
      side.take = async (...given) => {
        seen = await take(...given);
        return seen.flatMap((lease) => [lease, { ...lease, delivery: 2 }]);
      };
      return side;
    },
    run: (run) => ({
      ...run,
      shard: run.shard,
      runEpisode: async (task, request) => {
        if (request.episodeId !== seen[0]?.job.episodeId) return run.runEpisode(task, request);
        runs++;
        most = Math.max(most, ++atOnce);
        return run.runEpisode(task, request).finally(() => atOnce--);
      },
    }),
  });
  expect((await together(running)).totals.episodesFinished).toBe(12);
  await vi.waitFor(() => expect(runs).toBe(2));
  expect([most, (await indexed()).length]).toEqual([1, 12]);
});

test("a run whose queue another coordinator has taken over ends with the reason", async () => {
  const taken = new AbortController();
  const running = await coordinate({
    connect: (handlers) => {
      const queue = createMemoryQueue(handlers, { leaseMs, clock });
      Object.defineProperty(queue, "closed", { value: taken.signal });
      return queue;
    },
  });
  const ending = together(running);
  await new Promise((resolve) => setTimeout(resolve, 20));
  taken.abort(new Error("another coordinator has taken it over"));
  await expect(ending).rejects.toThrow("another coordinator has taken it over");
});

test("a full disk gives the job back, sends no receipt and opens the shard again", async () => {
  const running = await coordinate();
  let faults = 0;
  let reopened = 0;
  const full = (shard: ShardStore): ShardStore =>
    Object.assign(Object.create(shard) as ShardStore, {
      receipt: (id: string) => shard.receipt(id),
      append: async () => {
        faults++;
        const failure = {
          boundary: "store",
          code: "ENOSPC",
          message: "no space",
          retryable: false,
          cause: null,
        } as const;
        throw new AttributedError(failure);
      },
    });
  await work(running, "full", {
    capacity: 2,
    run: (run) => {
      const broken = full(run.shard);
      return {
        ...run,
        get shard() {
          return reopened < 2 ? broken : run.shard;
        },
        reopen: async () => {
          reopened++;
          await run.reopen();
        },
      };
    },
  });
  const { totals } = await together(running);
  expect(totals).toMatchObject({ episodesFinished: 12, outcomes: { completed: 12 } });
  expect(faults).toBeGreaterThan(0);
  expect(reopened).toBeGreaterThan(1);
  expect(running.notices.some((notice) => notice.includes("is given back: no space"))).toBe(true);
  expect((await indexed()).length).toBe(12);
});

test("a pause names the workers that have a call in flight, and waits for none that is gone", async () => {
  const running = await coordinate();
  const phases: string[] = [];
  await work(running, "w-1", {
    run: (run) => ({ ...run, shard: run.shard, obey: async ({ phase }) => void phases.push(phase) }),
  });
  await work(running, "w-2", {
    run: (run) => ({
      ...run,
      shard: run.shard,
      obey: ({ phase }) => (phase === "paused" ? new Promise(() => undefined) : Promise.resolve()),
    }),
  });
  while (running.queue.workers.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
  expect(await running.coordinator.pause({ timeoutMs: 3000 })).toEqual({ acknowledged: ["w-1"], missing: ["w-2"] });
  await running.coordinator.continue();
  expect((await together(running)).totals.episodesFinished).toBe(12);
  expect(phases.filter((phase, place) => phase !== phases[place - 1]).slice(-2)).toEqual(["paused", "running"]);
});

test("drops receipts of other tasks, episodes and shards, and entries that are none; their jobs run again", async () => {
  const running = await coordinate({ fence: 2 });
  const side = running.queue.connect({ onControl: () => undefined, onNotice: () => undefined });
  await side.report({ ...report, worker: "stranger" });
  const ending = together(running);
  const [lease] = await side.take(1);
  const genuine: Receipt[] = [];
  await work(running, "w-1", {
    connect: (handlers) => {
      const own = running.queue.connect(handlers);
      const take = own.take.bind(own);
      own.take = async (...given) =>
        (await take(...given)).map((one) => ({
          ...one,
          extend: () => one.extend(),
          done: async (receipt) => {
            genuine.push(receipt);
            await one.done(receipt);
          },
        }));
      return own;
    },
  });
  while (genuine.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  const base = genuine[0]!;
  const entry = {
    ...base.entry,
    id: lease!.job.episodeId,
    place: { ...(base.entry["place"] as object), shard: "stranger" },
  };
  const forged: Receipt = { ...base, episodeId: lease!.job.episodeId, worker: "stranger", entry };
  for (const hostile of [
    { ...forged, worker: "w-1" },
    { ...forged, entry: {} },
    { ...forged, entry: { ...entry, id: "another" } },
    { ...forged, entry: { ...entry, task: { ...(entry as unknown as { task: object }).task, contentHash: "0" } } },
  ]) {
    await lease!.done(hostile);
  }
  await side.close();
  expect((await ending).totals).toMatchObject({ episodesFinished: 12 });
  expect((await indexed()).every(({ place }) => place.shard === "w-1")).toBe(true);
});

test("a worker that cannot run the episodes ends a run whose only workers are its own, with the reason", async () => {
  const running = await coordinate({ endsOnRefusal: true });
  await work(running, "w-1", { version: "2" });
  await expect(together(running)).rejects.toThrow(
    /its coordinator has version 1 of trainable-agents, this worker has 2/,
  );
});

test("a worker with other tasks refuses them, and others run them", async () => {
  const running = await coordinate();
  const other = (index: number): Task => ({ ...taskset.task(index), contentHash: "f".repeat(64) });
  await work(running, "w-1", { run: (run) => ({ ...run, shard: run.shard, task: (_split, index) => other(index) }) });
  await work(running, "w-2");
  expect((await together(running)).totals.episodesFinished).toBe(12);
  expect(running.notices.join("\n")).toContain("has other content here (ffffffffffff");
});

test("submits everything again that is open when the queue has forgotten it", async () => {
  let forget = (): void => undefined;
  let lost: MemoryQueue | null = null;
  const running = await coordinate({
    connect: (handlers) => {
      const queue = createMemoryQueue(handlers, { leaseMs, clock });
      forget = () => handlers.onForgotten();
      lost = queue;
      return queue;
    },
  });
  const ending = together(running);
  await new Promise((resolve) => setTimeout(resolve, 20));
  const side = lost!.connect({ onControl: () => undefined, onNotice: () => undefined });
  // These jobs are lost with the broker's disk.
  const gone = await side.take(100);
  expect(gone.length).toBe(12);
  forget();
  await work({ ...running, queue: lost! }, "w-1");
  expect((await ending).totals.episodesFinished).toBe(12);
});
