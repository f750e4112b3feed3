// Many leases at once, each extended three times before it expires, against a real nats-server: the
// broker's cost of a heartbeat, and whether any job is lost or delivered twice while all of them
// are held. No episodes are run; coordinator and workers are this process.

import { setTimeout as sleep } from "node:timers/promises";

import { connectNatsWorker, coordinateNats } from "../../../dist/queue/nats/index.js";
import { exampleJob, exampleReceipt, silent } from "./examples.mjs";
import { startNats } from "./nats-server.mjs";

/** Connections of workers. */
const connections = 16;
/** Submissions in flight. */
const atOnce = 256;

/** @typedef {import("../../../dist/queue/job-queue.js").Lease} Lease */

/**
 * @param {object} options
 * @param {import("./nats-server.mjs").NatsVersion} options.version
 * @param {string} options.folder
 * @param {number} options.leases
 * @param {number} options.holdMs Time for which all of them are held.
 * @param {number} options.leaseMs
 * @returns {Promise<string>} The figures. Rejects when a job was lost or delivered twice.
 */
export async function simulateLeases({ version, folder, leases, holdMs, leaseMs }) {
  const broker = await startNats({ version, folder });
  /** @type {Map<string, number>} */
  const receipts = new Map();
  let forgotten = 0;
  const onReceipt = (/** @type {{ episodeId: string }} */ { episodeId }) => {
    receipts.set(episodeId, (receipts.get(episodeId) ?? 0) + 1);
  };
  const queue = await coordinateNats(
    { ...silent, onReceipt, onForgotten: () => void forgotten++ },
    { address: broker.url, leaseMs },
  );
  const workers = await Promise.all(
    Array.from({ length: connections }, () => connectNatsWorker(silent, { address: broker.url })),
  );
  /** @type {Lease[]} */
  const held = [];
  const is = { taking: true, holding: true };
  const taking = workers.map(async (worker) => {
    while (is.taking && held.length < leases) held.push(...(await worker.take(512)));
  });
  // Leases are extended from the first on: taking all of them takes longer than a lease lasts. In
  // slices of time, like workers that hold many.
  let heartbeats = 0;
  const beating = (async () => {
    const sliceMs = 50;
    for (let next = 0, due = 0; is.holding; await sleep(sliceMs)) {
      due += (held.length * sliceMs * 3) / leaseMs;
      for (; due >= 1 && held.length > 0; due--) {
        void held[next++ % held.length]?.extend();
        heartbeats++;
      }
    }
  })();
  const began = performance.now();
  let submitted = 0;
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      while (submitted < leases) await queue.submit(exampleJob(`task ${submitted++}#0`));
    }),
  );
  while (held.length < leases && performance.now() - began < 20 * leases + 60_000) await sleep(100);
  const fillSeconds = (performance.now() - began) / 1000;

  const before = { cpu: broker.cpu(), own: process.cpuUsage(), heartbeats };
  const holding = performance.now();
  await sleep(holdMs);
  const seconds = (performance.now() - holding) / 1000;
  const [cpu, own] = [broker.cpu(), process.cpuUsage(before.own)];
  const beats = heartbeats - before.heartbeats;
  const brokerMicros = cpu.user + cpu.system - before.cpu.user - before.cpu.system;
  const again = held.filter(({ delivery }) => delivery > 1).length + Math.max(0, held.length - leases);

  is.taking = false;
  is.holding = false;
  await beating;
  for (let from = 0; from < held.length; from += atOnce) {
    const some = held.slice(from, from + atOnce);
    await Promise.all(some.map((lease) => lease.done(exampleReceipt(lease.job, "w-1"))));
  }
  for (let waited = 0; receipts.size < leases && waited < 600; waited++) await sleep(100);
  await Promise.all([...workers.map((worker) => worker.close()), ...taking]);
  await queue.close();
  await broker.kill();

  const lost = leases - receipts.size;
  const twice = [...receipts.values()].filter((count) => count > 1).length;
  const figures =
    `${held.length} leases held for ${seconds.toFixed(0)} s after ${fillSeconds.toFixed(0)} s of submitting and taking; ` +
    `${beats} heartbeats, ${(brokerMicros / beats).toFixed(2)} µs of the broker's CPU each, ` +
    `${((own.user + own.system) / beats).toFixed(2)} µs of ours; ` +
    `${lost} lost, ${again} delivered again, ${twice} receipts twice, ${forgotten} times forgotten`;
  // A receipt may come twice (`src/queue/job-queue.ts`): on a busy machine it may be confirmed
  // after the broker's deadline.
  if (lost > 0 || again > 0 || forgotten > 0) throw new Error(figures);
  return figures;
}

/**
 * Cost of a job: submitted, taken, its receipt sent and received, without episodes.
 *
 * @param {{ version: import("./nats-server.mjs").NatsVersion, folder: string, jobs: number }} options
 * @returns {Promise<string>} The figures.
 */
export async function measureJobs({ version, folder, jobs }) {
  const broker = await startNats({ version, folder });
  const seen = { receipts: 0 };
  const queue = await coordinateNats({ ...silent, onReceipt: () => void seen.receipts++ }, { address: broker.url });
  const workers = await Promise.all(
    Array.from({ length: 4 }, () => connectNatsWorker(silent, { address: broker.url })),
  );
  const [cpu, own] = [broker.cpu(), process.cpuUsage()];
  const working = workers.map(async (worker) => {
    while (seen.receipts < jobs) {
      const leases = await worker.take(64);
      await Promise.all(leases.map((lease) => lease.done(exampleReceipt(lease.job, "w-1"))));
    }
  });
  let submitted = 0;
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      while (submitted < jobs) await queue.submit(exampleJob(`task ${submitted++}#0`));
    }),
  );
  for (let waited = 0; seen.receipts < jobs && waited < 1200; waited++) await sleep(50);
  const [after, ours] = [broker.cpu(), process.cpuUsage(own)];
  await Promise.all([...workers.map((worker) => worker.close()), ...working]);
  await queue.close();
  await broker.kill();
  const micros = after.user + after.system - cpu.user - cpu.system;
  const figures = `${seen.receipts} jobs, ${(micros / jobs).toFixed(0)} µs of the broker's CPU each, ${((ours.user + ours.system) / jobs).toFixed(0)} µs of ours, coordinator and workers together`;
  if (seen.receipts !== jobs) throw new Error(figures);
  return figures;
}
