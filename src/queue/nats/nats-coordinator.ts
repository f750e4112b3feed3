// The coordinator's side of a queue on NATS. It detects lost data of the broker: streams that were
// created again, and jobs that are neither queued nor done. It is not the coordinator itself, which
// decides which jobs are submitted.

import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { ConfigurationError, faultAt, messageOf } from "../../core/index.ts";
import { systemClock } from "../../lib/clock.ts";
import {
  type Control,
  type CoordinatorHandlers,
  type Gathered,
  type Job,
  type JobQueue,
  readOrNotice,
  readReceipt,
  readReport,
  type WorkerReport,
  WorkerTable,
} from "../index.ts";
import { type NatsConnectOptions, type NatsLink, openLink, refuseCancelled, repeated } from "./nats-link.ts";
import type { NatsMessage } from "./nats-library.ts";
import { Puller } from "./nats-pull.ts";
import {
  makeStreams,
  namesOf,
  ownerOfReceipts,
  type QueueConfiguration,
  type QueueNames,
  takeOverReceipts,
} from "./nats-streams.ts";
import { jsonOf } from "../../lib/text.ts";

export type NatsQueueOptions = NatsConnectOptions & {
  /** Duration of a lease, in milliseconds. Default: 60,000. */
  readonly leaseMs?: number;
  /**
   * Maximum number of concurrent leases of all workers: the limit of the coordinator. Default:
   * none.
   */
  readonly maxLeases?: number | null;
};

/** Maximum number of receipts that are processed concurrently. */
const mostHandled = 1024;
/** Interval between repetitions of a question to workers that have not answered. */
const askAgainMs = 2000;
/** Time in which a live coordinator answers. */
const presenceMs = 2000;
/** Maximum number of ids in a cancellation: each id may have a kilobyte. */
const mostCancelled = 500;

/**
 * Opens a queue on a broker for its only coordinator. Jobs and states of an earlier coordinator are
 * forgotten, its receipts are delivered. Rejects with a `ConfigurationError` if the broker is not
 * reachable, or another coordinator uses the queue.
 */
export async function coordinateNats(handlers: CoordinatorHandlers, options: NatsQueueOptions): Promise<JobQueue> {
  const { leaseMs = 60_000, maxLeases = null } = options;
  const link = await openLink("coordinator", options, handlers.onNotice);
  try {
    const names = namesOf(link.address.queue);
    await refuseSecond(link, names);
    const queue = new NatsQueue(link, names, handlers, { leaseMs, maxLeases });
    await queue.open(options);
    return queue;
  } catch (error) {
    await link.close();
    refuseCancelled(options, error);
    if (error instanceof ConfigurationError) throw error;
    throw new ConfigurationError(
      `Cannot create the queue at ${link.address.shown}: ${messageOf(error)}; allow this account to use JetStream and the subjects ta.>.`,
      { cause: error },
    );
  }
}

async function refuseSecond({ nc, address }: NatsLink, { coordinator }: QueueNames): Promise<void> {
  const other = await nc.request(coordinator, "", { timeout: presenceMs }).catch(() => null);
  if (other === null) return;
  throw new ConfigurationError(
    `Cannot use the queue "${address.queue}" at ${address.shown}: another coordinator does; end it, or name another queue after the address.`,
  );
}

class NatsQueue implements JobQueue {
  readonly leaseMs: number;
  readonly closed: AbortSignal;
  readonly #link: NatsLink;
  readonly #names: QueueNames;
  readonly #handlers: CoordinatorHandlers;
  readonly #configuration: QueueConfiguration;
  readonly #table: WorkerTable;
  /** Name of its consumer: a coordinator that takes over deletes it. */
  readonly #own = `coordinator-${randomUUID()}`;
  readonly #receipts: Puller;
  readonly #stop = new AbortController();
  /**
   * Jobs on the broker that have no receipt and were not cancelled: subject to sequence number in
   * the stream.
   */
  readonly #open = new Map<string, number>();
  readonly #sending = new Set<string>();
  /** Number of jobs removed from `#open`. */
  #settled = 0;
  #handling = 0;
  #created = "";
  #repairing: Promise<void> | null = null;
  /** True if the last check found fewer jobs and receipts than are open. */
  #isSuspicious = false;
  #timer: NodeJS.Timeout | null = null;

  constructor(link: NatsLink, names: QueueNames, handlers: CoordinatorHandlers, configuration: QueueConfiguration) {
    this.leaseMs = configuration.leaseMs;
    this.#link = link;
    this.#names = names;
    this.#handlers = handlers;
    this.#configuration = configuration;
    this.#table = new WorkerTable(this.leaseMs, systemClock);
    this.#receipts = new Puller(link, names.receipts, this.#own);
    this.closed = AbortSignal.any([this.#stop.signal, link.closed]);
  }

  get workers(): readonly WorkerReport[] {
    return this.#table.present;
  }

  async open(waiting: NatsConnectOptions): Promise<void> {
    const { nc, jsm } = this.#link;
    const names = this.#names;
    await repeated(async () => {
      this.#created = String(await makeStreams(this.#link, names, this.#configuration));
      // The plan is authoritative: open jobs are submitted again.
      await Promise.all([jsm.streams.purge(names.jobs), jsm.streams.purge(names.states)]);
      await takeOverReceipts(this.#link, names, this.#own, this.leaseMs);
    }, waiting);
    nc.subscribe(names.coordinator, { callback: (_error, message) => void message.respond(this.#own) });
    nc.subscribe(names.report, {
      callback: (_error, message) => {
        const report = this.#read(readReport, message);
        if (report === null) return;
        this.#table.report(report);
        this.#handlers.onReport(report);
      },
    });
    nc.subscribe(names.obeyed, {
      callback: (_error, message) => {
        const { question, worker } = this.#read(readAnswer, message) ?? {};
        if (question !== undefined && worker !== undefined) this.#table.acknowledge(question, worker);
      },
    });
    // Without a connection, the subscriptions are made with the next one.
    await nc.flush().catch(() => undefined);
    this.#link.onUp(() => void this.#repair());
    void this.#receive();
    this.#timer = setInterval(() => void this.#look(), this.leaseMs);
  }

  async submit(job: Job): Promise<void> {
    this.#throwIfClosed();
    const subject = this.#names.job(job.runId, job.episodeId);
    this.#sending.add(subject);
    try {
      const { seq } = await this.#link.persist(subject, JSON.stringify(job));
      if (this.#sending.has(subject)) this.#open.set(subject, seq);
      // The receipt arrived before the broker's confirmation, from a worker that already had the
      // job; or the job was cancelled in the meantime.
      else await this.#delete(seq);
    } finally {
      this.#sending.delete(subject);
    }
  }

  async cancel(runId: string, episodeIds: readonly string[]): Promise<readonly string[]> {
    this.#throwIfClosed();
    for (let from = 0; from < episodeIds.length; from += mostCancelled) {
      const some = episodeIds.slice(from, from + mostCancelled);
      await Promise.all(some.map((episodeId) => this.#withdraw(this.#names.job(runId, episodeId))));
      await this.#tell({ type: "cancel", runId, episodeIds: some }, null);
    }
    // The broker does not report whether a job was still waiting or already sent to a worker.
    return [];
  }

  async broadcast(control: Control): Promise<void> {
    await this.#send(control, null);
  }

  gather(control: Control, options: Parameters<JobQueue["gather"]>[1]): Promise<Gathered> {
    const { timeoutMs, signal } = options;
    let again: NodeJS.Timeout | undefined;
    const gathering = this.#table.gather(async (question: string) => {
      // Questions and answers may be lost with a connection. A worker obeys a repeated question
      // only once.
      again = setInterval(() => void this.#tell(control, question).catch(() => undefined), askAgainMs);
      await Promise.race([this.#send(control, question), pause(timeoutMs, signal)]);
    }, options);
    return gathering.finally(() => clearInterval(again));
  }

  async close(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#stop.abort();
    await this.#receipts.close();
    await this.#link.close();
  }

  async #send(control: Control, question: string | null): Promise<void> {
    this.#throwIfClosed();
    if (control.type !== "run") return this.#tell(control, question);
    const { runId, phase } = control.state;
    // Connected workers also subscribe to the kept states.
    if (phase !== "ended") {
      await this.#link.persist(this.#names.state(runId), JSON.stringify({ question, control }));
      return;
    }
    // Ending a run does not wait for an unreachable broker: the next coordinator forgets what it
    // keeps.
    if (!(await this.#isThere())) return;
    const { jsm } = this.#link;
    // If this fails, the next coordinator forgets the kept state.
    await jsm.streams.purge(this.#names.states, { filter: this.#names.state(runId) }).catch(() => undefined);
    const isOfRun = (subject: string): boolean => subject.startsWith(this.#names.jobsOfRun(runId));
    await Promise.all([...this.#open.keys(), ...this.#sending].filter(isOfRun).map((one) => this.#withdraw(one)));
    // A broker that was killed or wiped may hold jobs whose receipts came from workers that already
    // had them.
    if (this.#open.size === 0) await jsm.streams.purge(this.#names.jobs).catch(() => undefined);
    await this.#tell(control, question);
  }

  /** True if the broker is reachable now, or again within a moment. */
  async #isThere(): Promise<boolean> {
    const stop = new AbortController();
    const timer = setTimeout(() => stop.abort(), presenceMs);
    return this.#link
      .up(stop.signal)
      .then(
        () => true,
        () => false,
      )
      .finally(() => clearTimeout(timer));
  }

  /** Sends a control that is not kept. */
  async #tell(control: Control, question: string | null): Promise<void> {
    await this.#link.tell(this.#names.control, JSON.stringify({ question, control }));
  }

  async #receive(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted && !this.#link.closed.aborted) {
      try {
        await this.#link.up(signal);
        const free = mostHandled - this.#handling;
        const { type, messages } = await this.#receipts.take(free, { waitMs: this.leaseMs / 2, signal });
        for (const message of messages) void this.#handle(message);
        if (type === "missing") {
          await this.#repair();
          await pause(200);
        }
        while (this.#handling >= mostHandled) await pause(5);
      } catch (error) {
        if (!signal.aborted && !this.#link.closed.aborted) {
          this.#handlers.onNotice(
            `Notice: receipts of the queue cannot be taken, which is tried again: ${messageOf(error)}.`,
          );
        }
        await pause(1000);
      }
    }
  }

  async #handle(message: NatsMessage): Promise<void> {
    this.#handling++;
    try {
      const receipt = this.#read(readReceipt, message);
      if (receipt !== null) {
        await this.#handlers.onReceipt(receipt);
        this.#settle(this.#names.job(receipt.runId, receipt.episodeId));
      }
      if (!this.#stop.signal.aborted) message.respond("+ACK");
    } catch (error) {
      this.#handlers.onNotice(`Notice: a receipt was not processed and will be delivered again: ${messageOf(error)}.`);
    } finally {
      this.#handling--;
    }
  }

  #read<T>(read: (value: unknown) => T, { data }: NatsMessage): T | null {
    return readOrNotice(read, parse(data), this.#handlers.onNotice);
  }

  /** Repairs the queue after any event in which the broker may have lost data. */
  #repair(): Promise<void> {
    this.#repairing ??= this.#repairOnce()
      .catch((error: unknown) => {
        if (this.#stop.signal.aborted || !this.#link.isUp) return;
        this.#handlers.onNotice(
          `Notice: the queue at ${this.#link.address.shown} cannot be maintained: ${messageOf(error)}.`,
        );
      })
      .finally(() => (this.#repairing = null));
    return this.#repairing;
  }

  async #repairOnce(): Promise<void> {
    const created = String(await makeStreams(this.#link, this.#names, this.#configuration));
    const owner = await ownerOfReceipts(this.#link, this.#names, this.#own);
    if (owner === "other") {
      const { shown, queue } = this.#link.address;
      const state = `Cannot continue with the queue "${queue}" at ${shown}: another coordinator has taken it over`;
      const remedy = "resume what ran here when that one has ended, or with another queue after the address";
      this.#stop.abort(faultAt("queue", "replaced", `${state}; ${remedy}.`));
      await this.close();
      return;
    }
    if (owner === "none") await takeOverReceipts(this.#link, this.#names, this.#own, this.leaseMs);
    if (created === this.#created && owner === "own") return;
    this.#created = created;
    this.#forget();
  }

  /**
   * Checks for lost messages: after a power failure, streams of a broker may lack their last
   * messages. An open episode is either a job there or a receipt. Jobs are counted first, so that a
   * job which becomes a receipt in the meantime is counted twice and not missed.
   */
  async #look(): Promise<void> {
    if (!this.#link.isUp || this.#open.size === 0) return;
    try {
      const { jsm } = this.#link;
      const [open, settled] = [this.#open.size, this.#settled];
      const jobs = (await jsm.streams.info(this.#names.jobs)).state.messages;
      const receipts = (await jsm.streams.info(this.#names.receipts)).state.messages;
      const isShort = jobs + receipts < open - (this.#settled - settled);
      if (isShort && this.#isSuspicious) this.#forget();
      this.#isSuspicious = isShort && !this.#isSuspicious;
    } catch {
      await this.#repair();
    }
  }

  /**
   * Removes a job. If that fails, the job is run, and its receipt is not counted. Not by subject,
   * because NATS 2.9 would also skip other jobs.
   */
  async #withdraw(subject: string): Promise<void> {
    const seq = this.#open.get(subject);
    this.#settle(subject);
    if (seq !== undefined) await this.#delete(seq);
  }

  async #delete(seq: number): Promise<void> {
    await this.#link.jsm.streams.deleteMessage(this.#names.jobs, seq, false).catch(() => false);
  }

  #settle(subject: string): void {
    this.#sending.delete(subject);
    if (this.#open.delete(subject)) this.#settled++;
  }

  #forget(): void {
    this.#open.clear();
    this.#handlers.onForgotten();
  }

  #throwIfClosed(): void {
    this.#stop.signal.throwIfAborted();
    this.#link.closed.throwIfAborted();
  }
}

/** Parses JSON; invalid text becomes a value that no message has. */
export function parse(data: Uint8Array): unknown {
  return jsonOf(Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("utf8"));
}

/** Parses a worker's acknowledgement of a question. */
function readAnswer(value: unknown): { readonly question: string; readonly worker: string } {
  const { question, worker } = (value ?? {}) as { readonly question?: unknown; readonly worker?: unknown };
  if (typeof question === "string" && typeof worker === "string") return { question, worker };
  throw new Error("Cannot read an answer: it does not name both a question and a worker.");
}

/** Resolves after the time, or when the signal aborts. */
export async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  await sleep(ms, undefined, signal === undefined ? {} : { signal }).catch(() => undefined);
}
