// The contract of queues on a real nats-server, and cases beyond it: a broker that goes away, is
// disconnected, loses a part of its data, or delivers foreign messages. `npm run verify -- queue`
// runs these tests with Debian's nats-server and with a newer one.

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "@nats-io/transport-node";
import { jetstreamManager } from "@nats-io/jetstream";
import { describe, expect, test } from "vitest";
import { createToxicProxy } from "../../testing/index.ts";
import type { CoordinatorHandlers, JobQueue, Lease, Receipt, WorkerHandlers, WorkerQueue } from "../index.ts";
import { jobOf, queueConformance, receiptOf, reportOf, stateOf } from "../queue-conformance.test-helper.ts";
import { type Broker, natsServer, startBroker } from "./broker.test-helper.ts";
import { connectNatsWorker, coordinateNats } from "./index.ts";
import { openLink, repeated } from "./nats-link.ts";
import { Puller } from "./nats-pull.ts";
import { makeStreams, namesOf, workersConsumer } from "./nats-streams.ts";

/** Short, because it passes in real time. */
const leaseMs = 2000;
const common = { waitMs: 5000, pingMs: 500 };

type Closing = { close(): Promise<void> };

describe.skipIf(natsServer === undefined)("a queue at a broker of NATS", () => {
  const checks = queueConformance({
    mortal: null,
    open: async () => {
      const broker = await startBroker();
      const options = { ...common, address: `nats://127.0.0.1:${broker.port}/conformance` };
      const opened: Closing[] = [];
      return {
        coordinate: async (handlers) => keep(opened, await coordinateNats(handlers, { ...options, leaseMs })),
        connect: async (handlers) => keep(opened, await connectNatsWorker(handlers, options)),
        passLeases: (leases) => sleep(leases * leaseMs),
        forget: () => broker.wipe(),
        close: async () => {
          for (const one of opened) await one.close();
          await broker.remove();
        },
      };
    },
  });
  test.concurrent.for(checks)("$name", async ({ run }) => run());

  test.concurrent("what is sent while the broker is away arrives when it is back", () =>
    within(async ({ broker, coordinator, worker }) => {
      const { queue, receipts, notices } = await coordinator();
      const side = await worker();
      await queue.submit(jobOf("a#0"));
      const [lease] = await takeOne(side);
      await broker.kill();
      const done = lease!.done(receiptOf(lease!.job));
      const submitted = queue.submit(jobOf("a#1"));
      await sleep(700);
      expect(receipts).toEqual([]);
      await broker.start();
      await Promise.all([done, submitted]);
      let [next] = await takeOne(side);
      // A killed broker may have lost the record that it had delivered the first job.
      if (next!.job.episodeId === "a#0") [next] = await takeOne(side);
      expect(next!.job.episodeId).toBe("a#1");
      await until(() => receipts.length === 1);
      expect(notices.map((notice) => notice.replace(/nats:\S+/, "it"))).toEqual([
        "Notice: the connection to the broker at it is lost; it is tried again.",
        "Notice: the broker at it is back.",
      ]);
      // The second job is forgotten. The first may be delivered again, because the broker may not
      // have saved its delivery.
      await next!.done(receiptOf(next!.job));
      const rest = await side.take(1, { signal: AbortSignal.timeout(2 * leaseMs) });
      expect(rest.map(({ job }) => job.episodeId)).not.toContain("a#1");
    }));

  test.concurrent("a worker that is cut off loses its lease, and its late receipt arrives", () =>
    within(async ({ broker, coordinator, worker }) => {
      const proxy = await createToxicProxy({ targetPort: broker.port, choose: () => ({ type: "none" }) });
      try {
        const { queue, receipts } = await coordinator();
        const [cut, other] = [await worker(proxy.port), await worker()];
        await queue.submit(jobOf("a#0"));
        const [lease] = await takeOne(cut);
        const heal = proxy.partition();
        const beating = setInterval(() => void lease!.extend(), leaseMs / 3);
        const [again] = await takeOne(other);
        expect(again!.delivery).toBeGreaterThan(1);
        const late = lease!.done(receiptOf(lease!.job, "w-cut"));
        await again!.done(receiptOf(again!.job, "w-other"));
        await until(() => receipts.length === 1);
        heal();
        await late;
        clearInterval(beating);
        await until(() => receipts.length === 2);
        expect(receipts.map(({ worker: name }) => name)).toEqual(["w-other", "w-cut"]);
        await queue.submit(jobOf("a#1"));
        expect((await takeOne(cut))[0]!.job.episodeId).toBe("a#1");
      } finally {
        await proxy.close();
      }
    }));

  test.concurrent("jobs that the broker has lost without a word are noticed", () =>
    within(async ({ broker, coordinator }) => {
      const { queue, state } = await coordinator();
      await Promise.all(["a#0", "a#1", "a#2"].map((id) => queue.submit(jobOf(id))));
      const nc = await connect({ servers: `127.0.0.1:${broker.port}` });
      await (await jetstreamManager(nc)).streams.deleteMessage("TA_own_JOBS", 2);
      await nc.close();
      await until(() => state.forgotten === 1, 5 * leaseMs);
    }));

  test.concurrent("a second coordinator is refused while the first answers, and replaces one that does not", () =>
    within(async ({ broker, coordinator }) => {
      const proxy = await createToxicProxy({ targetPort: broker.port, choose: () => ({ type: "none" }) });
      try {
        const first = await coordinator(proxy.port);
        await expect(coordinator()).rejects.toThrow(
          /^Cannot use the queue "own" at .*: another coordinator does; end it, or name another queue behind the address\.$/,
        );
        const heal = proxy.partition();
        const second = await coordinator();
        heal();
        await until(() => first.queue.closed.aborted);
        expect(String(first.queue.closed.reason)).toContain(
          "another coordinator has taken it over; resume what ran here",
        );
        await expect(first.queue.submit(jobOf("a#0"))).rejects.toThrow("another coordinator has taken it over");
        await second.queue.submit(jobOf("a#0"));
      } finally {
        await proxy.close();
      }
    }));

  test.concurrent("a request is taken whatever fraction of a millisecond it may wait", () =>
    within(async ({ broker, coordinator, worker }) => {
      const { queue } = await coordinator();
      await worker();
      const link = await openLink(
        "test",
        { ...common, address: `nats://127.0.0.1:${broker.port}/own` },
        () => undefined,
      );
      const puller = new Puller(link, namesOf("own").jobs, workersConsumer);
      // Multiplied by a million, these values are not integers.
      for (const [index, waitMs] of [1999.971407000005, 1424.6245269999927, 19999.96624].entries()) {
        await queue.submit(jobOf(`a#${index}`));
        const { type, messages } = await puller.take(1, { waitMs });
        for (const message of messages) message.respond("+ACK");
        expect([type, messages.length]).toEqual(["messages", 1]);
      }
      await puller.close();
      await link.close();
    }));

  test.concurrent("a coordinator that begins while the broker is wiped makes the queue again", () =>
    within(async ({ broker }) => {
      const link = await openLink(
        "test",
        { ...common, address: `nats://127.0.0.1:${broker.port}/own` },
        () => undefined,
      );
      let attempts = 0;
      await repeated(
        async () => {
          if (attempts++ > 0) await makeStreams(link, namesOf("own"), { leaseMs, maxLeases: null });
          await link.jsm.streams.purge(namesOf("own").jobs);
        },
        { waitMs: 5000 },
      );
      expect(attempts).toBe(2);
      await link.close();
    }));

  test.concurrent("a message that is longer than the broker takes is refused", () =>
    within(async ({ coordinator }) => {
      const { queue } = await coordinator();
      const long = jobOf("a#0", { sampling: "x".repeat(2_000_000) });
      await expect(queue.submit(long)).rejects.toThrow(
        /^Cannot send a message of \d+ bytes: .* accepts at most 1048576; raise/,
      );
    }));

  test.concurrent("ids of any kind are no subjects, and keep apart", () =>
    within(async ({ coordinator, worker }) => {
      const { queue } = await coordinator();
      const side = await worker();
      const ids = ["*", ">", "a.b", "a b", "ä\n\u0000", " ", "a#0", "a#00", "x".repeat(1000), "$JS.API.>"];
      const runs = ["run.*", "run.>", "run"];
      const jobs = runs.flatMap((runId) => ids.map((episodeId) => jobOf(episodeId, { runId })));
      for (const job of jobs) await queue.submit(job);
      const taken: Lease[] = [];
      while (taken.length < jobs.length) taken.push(...(await side.take(64)));
      const order = (some: readonly { readonly job: Lease["job"] }[]): string[] =>
        some.map(({ job }) => JSON.stringify(job)).toSorted();
      expect(order(taken)).toEqual(order(jobs.map((job) => ({ job }))));
    }));

  test.concurrent("what nobody of us sent is dropped with a notice", () =>
    within(async ({ broker, coordinator, worker }) => {
      const { queue, receipts, notices } = await coordinator();
      const side = await worker(undefined, notices);
      const nc = await connect({ servers: `127.0.0.1:${broker.port}` });
      for (const garbage of [
        "",
        "{",
        "null",
        '{"question":1}',
        '{"question":null,"control":{"type":"shell"}}',
        "\u0000",
      ]) {
        for (const kind of ["job.r.e", "receipt", "state.r", "control", "report", "obeyed"]) {
          nc.publish(`ta.own.${kind}`, garbage);
        }
      }
      await nc.flush();
      await nc.close();
      await queue.submit(jobOf("a#0"));
      const leases: Lease[] = [];
      while (leases.length === 0) leases.push(...(await side.take(4)));
      expect(leases.map(({ job }) => job.episodeId)).toEqual(["a#0"]);
      await leases[0]!.done(receiptOf(leases[0]!.job));
      await until(() => receipts.length === 1);
      expect(new Set(notices.map((notice) => notice.slice(0, 43)))).toEqual(
        new Set(["Notice: a message of the queue was dropped."]),
      );
    }));

  test.concurrent("the next coordinator of a queue may have another lease", () =>
    within(async ({ coordinator, worker }) => {
      const first = await coordinator();
      await first.queue.close();
      const { queue } = await coordinator(undefined, 3 * leaseMs);
      const side = await worker();
      await queue.submit(jobOf("a#0"));
      await takeOne(side);
      expect(side.leaseMs).toBe(3 * leaseMs);
    }));

  test.concurrent("the end of a run leaves no job, also when the broker holds some that came again", () =>
    within(async ({ broker, coordinator, worker }) => {
      const { queue, receipts } = await coordinator();
      const side = await worker();
      await queue.submit(jobOf("a#0"));
      const [lease] = await takeOne(side);
      const nc = await connect({ servers: `127.0.0.1:${broker.port}` });
      const { streams } = await jetstreamManager(nc);
      const jobs = async (): Promise<number> => (await streams.info("TA_own_JOBS")).state.messages;
      // The same job is submitted again, as after a wiped disk, while a worker has the first one.
      await queue.submit(jobOf("a#0"));
      await lease!.done(receiptOf(lease!.job));
      await until(() => receipts.length === 1);
      expect(await jobs()).toBe(1);
      await queue.broadcast({ type: "run", state: stateOf({ phase: "ended" }) });
      expect(await jobs()).toBe(0);
      await nc.close();
    }));

  test.concurrent("a question that comes again is obeyed once", () =>
    within(async ({ coordinator, worker }) => {
      const { queue } = await coordinator();
      let asked = 0;
      const side = await worker(undefined, [], async () => {
        asked++;
        await sleep(3000);
      });
      await side.report(reportOf("w-1"));
      await until(() => queue.workers.length === 1);
      const reporting = setInterval(() => void side.report(reportOf("w-1")), 500);
      const gathered = await queue.gather({ type: "run", state: stateOf({ phase: "paused" }) }, { timeoutMs: 10_000 });
      clearInterval(reporting);
      expect([gathered, asked]).toEqual([{ acknowledged: ["w-1"], missing: [] }, 1]);
    }));
});

type Coordinator = {
  readonly queue: JobQueue;
  readonly receipts: Receipt[];
  readonly notices: string[];
  readonly state: { forgotten: number };
};

type World = {
  readonly broker: Broker;
  readonly coordinator: (port?: number, leaseMs?: number) => Promise<Coordinator>;
  readonly worker: (port?: number, notices?: string[], obey?: () => Promise<void>) => Promise<WorkerQueue>;
};

/** Runs a test with a broker of its own. */
async function within(body: (world: World) => Promise<void>): Promise<void> {
  const broker = await startBroker();
  const opened: Closing[] = [];
  const at = (port = broker.port) => ({ ...common, address: `nats://127.0.0.1:${port}/own` });
  try {
    await body({
      broker,
      coordinator: async (port, leaseOf = leaseMs) => {
        const [receipts, notices, state] = [[] as Receipt[], [] as string[], { forgotten: 0 }];
        const handlers: CoordinatorHandlers = {
          onReceipt: (receipt) => void receipts.push(receipt),
          onReport: () => undefined,
          onForgotten: () => void state.forgotten++,
          onNotice: (notice) => void notices.push(notice),
        };
        const queue = keep(opened, await coordinateNats(handlers, { ...at(port), leaseMs: leaseOf }));
        return { queue, receipts, notices, state };
      },
      worker: async (port, notices = [], obey) => {
        const handlers: WorkerHandlers = {
          onControl: () => obey?.(),
          onNotice: (notice) => void notices.push(notice),
        };
        return keep(opened, await connectNatsWorker(handlers, at(port)));
      },
    });
  } finally {
    for (const one of opened) await one.close();
    await broker.remove();
  }
}

function keep<T extends Closing>(opened: Closing[], one: T): T {
  opened.push(one);
  return one;
}

async function takeOne(queue: WorkerQueue): Promise<readonly Lease[]> {
  for (;;) {
    const leases = await queue.take(1);
    if (leases.length > 0) return leases;
  }
}

async function until(holds: () => boolean, timeoutMs = 10_000): Promise<void> {
  for (const end = performance.now() + timeoutMs; !holds(); await sleep(5)) {
    if (performance.now() > end) assert.fail(`nothing within ${timeoutMs} ms`);
  }
}
