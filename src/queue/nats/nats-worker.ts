// A worker's side of a queue on NATS. Leases are unacknowledged messages of the work queue;
// receipts wait here while the broker is away.

import {
  type Control,
  type Lease,
  readControl,
  readJob,
  readOrNotice,
  type Receipt,
  type WorkerHandlers,
  type WorkerQueue,
  type WorkerReport,
} from "../index.ts";
import { parse, pause } from "./nats-coordinator.ts";
import { type NatsConnectOptions, type NatsLink, openLink } from "./nats-link.ts";
import type { NatsMessage } from "./nats-library.ts";
import { Puller } from "./nats-pull.ts";
import { namesOf, type QueueNames, readLeaseMs, readStates, workersConsumer } from "./nats-streams.ts";

/** Lease that applies until a coordinator has created the queue. */
const usualLeaseMs = 60_000;
/** Maximum wait of `take`. */
const longestTakeMs = 20_000;
const retryMs = 500;
/** Maximum number of questions whose answers are repeated if they are asked again. */
const mostQuestions = 1000;

export interface NatsWorkerQueue extends WorkerQueue {
  /** True if the broker is reachable now. */
  readonly isConnected: boolean;
}

/**
 * Connects a worker. The queue need not exist yet. Rejects with a `ConfigurationError` if the
 * broker is not reachable.
 */
export async function connectNatsWorker(
  handlers: WorkerHandlers,
  options: NatsConnectOptions,
): Promise<NatsWorkerQueue> {
  const link = await openLink("worker", options, handlers.onNotice);
  try {
    const queue = new NatsWorker(link, namesOf(link.address.queue), handlers);
    await queue.open();
    return queue;
  } catch (error) {
    await link.close();
    throw error;
  }
}

class NatsWorker implements NatsWorkerQueue {
  readonly closed: AbortSignal;
  #leaseMs = usualLeaseMs;
  readonly #link: NatsLink;
  readonly #names: QueueNames;
  readonly #handlers: WorkerHandlers;
  readonly #jobs: Puller;
  readonly #held = new Set<NatsMessage>();
  /** Progress of each question. */
  readonly #questions = new Map<string, "asked" | "obeyed">();
  /** Runs whose state the worker has received. */
  readonly #known = new Set<string>();
  #worker: string | null = null;
  #isInformed = false;
  /** Aborts a take in flight, which requests no more jobs. */
  readonly #closing = new AbortController();

  constructor(link: NatsLink, names: QueueNames, handlers: WorkerHandlers) {
    this.#link = link;
    this.#names = names;
    this.#handlers = handlers;
    this.#jobs = new Puller(link, names.jobs, workersConsumer);
    this.closed = link.closed;
  }

  get leaseMs(): number {
    return this.#leaseMs;
  }

  get isConnected(): boolean {
    return this.#link.isUp;
  }

  async open(): Promise<void> {
    const { nc } = this.#link;
    const callback = (_error: Error | null, { data }: NatsMessage): void => this.#obey(data);
    for (const subject of [this.#names.allStates, this.#names.control]) nc.subscribe(subject, { callback });
    // Without a connection, the subscriptions are made with the next one.
    await nc.flush().catch(() => undefined);
    // Messages that were sent while the connection was lost are read again.
    this.#link.onUp(() => (this.#isInformed = false));
    await this.#inform();
  }

  async take(most: number, { signal }: { readonly signal?: AbortSignal | undefined } = {}): Promise<readonly Lease[]> {
    const until = performance.now() + longestTakeMs;
    const ends = AbortSignal.any([this.#closing.signal, this.closed, ...(signal === undefined ? [] : [signal])]);
    while (!ends.aborted && performance.now() < until) {
      try {
        await this.#link.up(ends);
      } catch {
        return [];
      }
      if (!this.#isInformed && !(await this.#inform())) {
        await pause(retryMs, ends);
        continue;
      }
      const waitMs = Math.min(until - performance.now(), this.#leaseMs / 2);
      const { type, messages } = await this.#jobs.take(most, { waitMs, signal: ends });
      if (messages.length > 0) return this.#leases(messages);
      if (type === "missing") {
        this.#isInformed = false;
        await pause(retryMs, ends);
      }
    }
    return [];
  }

  async report(report: WorkerReport): Promise<void> {
    this.#worker = report.worker;
    if (!this.#link.isUp) return;
    this.#link.nc.publish(this.#names.report, JSON.stringify(report));
    // No message follows this report.
    if (report.phase === "left") await this.#link.nc.flush().catch(() => undefined);
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#jobs.close();
    for (const message of this.#held) message.respond("-NAK");
    this.#held.clear();
    if (this.#link.isUp) await this.#link.nc.flush().catch(() => undefined);
    await this.#link.close();
  }

  /** Reads the kept states and the lease. Resolves to false if the queue does not exist yet. */
  async #inform(): Promise<boolean> {
    try {
      this.#leaseMs = await readLeaseMs(this.#link, this.#names);
      const states = await readStates(this.#link, this.#names);
      this.#isInformed = true;
      for (const state of states) this.#obey(state);
      return true;
    } catch {
      return false;
    }
  }

  #obey(data: Uint8Array): void {
    const message = readOrNotice(readMessage, parse(data), this.#handlers.onNotice);
    if (message === null) return;
    const { question, control } = message;
    if (control.type === "run") this.#known.add(control.state.runId);
    if (control.type === "run" && control.state.phase === "ended") this.#known.delete(control.state.runId);
    const before = question === null ? undefined : this.#questions.get(question);
    if (before === "obeyed") this.#answer(question!);
    if (before !== undefined) return;
    if (question !== null) this.#questions.set(question, "asked");
    for (const [oldest] of this.#questions) {
      if (this.#questions.size <= mostQuestions) break;
      this.#questions.delete(oldest);
    }
    void this.#pass(control, question);
  }

  async #pass(control: Control, question: string | null): Promise<void> {
    await this.#handlers.onControl(control);
    if (question === null) return;
    this.#questions.set(question, "obeyed");
    this.#answer(question);
  }

  #answer(question: string): void {
    if (this.#worker === null || !this.#link.isUp) return;
    this.#link.nc.publish(this.#names.obeyed, JSON.stringify({ question, worker: this.#worker }));
  }

  async #leases(messages: readonly NatsMessage[]): Promise<readonly Lease[]> {
    const leases: Lease[] = [];
    for (const message of messages) {
      const job = readOrNotice(readJob, parse(message.data), this.#handlers.onNotice);
      // A message that is not a job is invalid for every worker, so it is never delivered again.
      if (job === null) message.respond("+TERM");
      else {
        // Brokers of a cluster may deliver a job before the state that was sent before it.
        if (!this.#known.has(job.runId)) await this.#inform();
        this.#known.add(job.runId);
        leases.push(new NatsLease(job, message, this.#link, this.#names, this.#held));
      }
    }
    return leases;
  }
}

class NatsLease implements Lease {
  readonly job: Lease["job"];
  readonly delivery: number;
  readonly #message: NatsMessage;
  readonly #link: NatsLink;
  readonly #names: QueueNames;
  readonly #held: Set<NatsMessage>;

  constructor(job: Lease["job"], message: NatsMessage, link: NatsLink, names: QueueNames, held: Set<NatsMessage>) {
    this.job = job;
    this.delivery = deliveryOf(message);
    this.#message = message;
    this.#link = link;
    this.#names = names;
    this.#held = held;
    held.add(message);
  }

  /**
   * The broker does not report whether the lease still holds; if another worker has it, this
   * extends it for that worker.
   */
  async extend(): Promise<boolean> {
    if (!this.#held.has(this.#message)) return false;
    if (this.#link.isUp) this.#message.respond("+WPI");
    return true;
  }

  async done(receipt: Receipt): Promise<void> {
    await this.#link.persist(this.#names.receipt, JSON.stringify(receipt));
    this.#held.delete(this.#message);
    this.#message.respond("+ACK");
  }

  /**
   * A job that is given back repeatedly waits longer each time: all workers may have the same
   * reason.
   */
  async giveBack(_reason: string): Promise<void> {
    if (!this.#held.delete(this.#message)) return;
    const delayMs = this.delivery === 1 ? 0 : Math.min(50 * 2 ** this.delivery, 10_000);
    this.#message.respond(delayMs === 0 ? "-NAK" : `-NAK {"delay": ${delayMs * 1_000_000}}`);
  }
}

/**
 * Number of the delivery, read from the subject of acknowledgements. It ends with: deliveries,
 * sequences, time, pending; before 2.11 it had fewer tokens at its beginning.
 */
function deliveryOf({ reply = "" }: NatsMessage): number {
  const tokens = reply.split(".");
  const count = Number(tokens[tokens.length >= 11 ? 6 : 4]);
  return Number.isSafeInteger(count) && count > 0 ? count : 1;
}

/** Parses a control, and the question to answer when it is obeyed. */
function readMessage(value: unknown): { readonly question: string | null; readonly control: Control } {
  const { question, control } = (value ?? {}) as { readonly question?: unknown; readonly control?: unknown };
  if (question !== null && (typeof question !== "string" || question.length > 100)) {
    throw new Error("Cannot read a control message: its question is invalid.");
  }
  return { question, control: readControl(control) };
}
