// Takes messages from a JetStream consumer: each `take` requests what it still needs and waits for
// a message. Several messages that arrive together are returned together. A message that arrives
// between two takes waits briefly for the next one, and is then given back.

import { setTimeout as sleep } from "node:timers/promises";
import type { NatsLink } from "./nats-link.ts";
import type { NatsMessage, NatsSubscription } from "./nats-library.ts";

/**
 * "messages": all available messages. "none": the time has passed, or the signal has aborted.
 * "missing": the broker has no such consumer now.
 */
export type Pulled = { readonly type: "messages" | "none" | "missing"; readonly messages: readonly NatsMessage[] };

type Taking = {
  readonly most: number;
  readonly messages: NatsMessage[];
  end(type: Pulled["type"]): void;
};

/** Maximum time that a request waits at the broker, which loses it on a restart. */
const longestRequestMs = 20_000;
/** Additional time after which the request or its answer counts as lost. */
const graceMs = 2000;

/** Time that an early message waits for the next take. */
const earlyMs = 1000;
/** Maximum time that `close` waits for the broker. */
const drainMs = 2000;

/** Messages of one consumer, for one caller of `take` at a time. */
export class Puller {
  readonly #link: NatsLink;
  readonly #subject: string;
  #inbox = "";
  #subscription: NatsSubscription | null = null;
  /** Number of the last request; statuses of earlier requests no longer matter. */
  #request = 0;
  /** Number of messages that the broker may still send for requests that have not ended. */
  #outstanding = 0;
  #taking: Taking | null = null;
  /** Messages that arrived between two takes. */
  #early: NatsMessage[] = [];
  #earlyTimer: NodeJS.Timeout | undefined;

  constructor(link: NatsLink, stream: string, consumer: string) {
    this.#link = link;
    this.#subject = `$JS.API.CONSUMER.MSG.NEXT.${stream}.${consumer}`;
    // The broker drops requests when the connection ends.
    link.onUp(() => {
      this.#outstanding = 0;
      this.#taking?.end("none");
    });
  }

  /** Takes at most `most` messages, as soon as there is one. One call at a time. */
  async take(
    most: number,
    { waitMs, signal }: { readonly waitMs: number; readonly signal?: AbortSignal },
  ): Promise<Pulled> {
    if (signal?.aborted === true) return { type: "none", messages: [] };
    if (this.#early.length > 0) return { type: "messages", messages: this.#early.splice(0, most) };
    this.#subscribe();
    const requestMs = Math.max(1000, Math.min(waitMs, longestRequestMs));
    return new Promise((resolve) => {
      const finish = (type: Pulled["type"]): void => {
        if (this.#taking !== taking) return;
        this.#taking = null;
        clearTimeout(timer);
        signal?.removeEventListener("abort", onAbort);
        resolve({ type: messages.length > 0 ? "messages" : type, messages });
      };
      const messages: NatsMessage[] = [];
      const taking: Taking = { most, messages, end: finish };
      const onAbort = (): void => {
        finish("none");
        void this.close();
      };
      const timer = setTimeout(() => {
        this.#outstanding = 0;
        finish("none");
      }, requestMs + graceMs);
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#taking = taking;
      const lacking = most - this.#outstanding;
      if (lacking > 0) this.#ask(lacking, requestMs);
    });
  }

  /**
   * Ends waiting requests. Messages in flight are released only after the broker has ended the
   * requests: otherwise it would send them here again, where they would be lost.
   */
  async close(): Promise<void> {
    const subscription = this.#subscription;
    this.#subscription = null;
    this.#outstanding = 0;
    this.#taking?.end("none");
    clearTimeout(this.#earlyTimer);
    // An unreachable broker answers nothing.
    const drained = new AbortController();
    const draining = (subscription?.drain() ?? Promise.resolve()).catch(() => undefined).finally(() => drained.abort());
    await Promise.race([draining, sleep(drainMs, undefined, { signal: drained.signal }).catch(() => undefined)]);
    if (this.#subscription === null) this.#returnEarly();
  }

  #ask(batch: number, expiresMs: number): void {
    this.#outstanding += batch;
    this.#request++;
    // Integer nanoseconds: the broker refuses a request with a fraction.
    const body = JSON.stringify({ batch, expires: Math.ceil(expiresMs) * 1_000_000 });
    this.#link.nc.publish(this.#subject, body, { reply: `${this.#inbox}.${this.#request}` });
  }

  #subscribe(): void {
    if (this.#subscription !== null) return;
    const inbox = this.#link.createInbox();
    this.#inbox = inbox;
    this.#subscription = this.#link.nc.subscribe(`${inbox}.*`, {
      callback: (error, message) => {
        if (error !== null) return this.#taking?.end("none");
        if (message.subject.startsWith(`${inbox}.`)) return this.#status(message, inbox);
        this.#receive(message);
      },
    });
  }

  #receive(message: NatsMessage): void {
    this.#outstanding = Math.max(0, this.#outstanding - 1);
    const taking = this.#taking;
    if (taking === null || taking.messages.length >= taking.most) {
      this.#early.push(message);
      clearTimeout(this.#earlyTimer);
      this.#earlyTimer = setTimeout(() => this.#returnEarly(), earlyMs);
      return;
    }
    taking.messages.push(message);
    if (taking.messages.length === taking.most) taking.end("messages");
    // Further messages of the same packet are read first.
    else if (taking.messages.length === 1) setImmediate(() => taking.end("messages"));
  }

  #returnEarly(): void {
    clearTimeout(this.#earlyTimer);
    for (const message of this.#early.splice(0)) message.respond("-NAK");
  }

  /** Handles a status: the end of a request, or a heartbeat. */
  #status({ subject, headers }: NatsMessage, inbox: string): void {
    const code = headers?.code ?? 503;
    if (code === 100 || inbox !== this.#inbox) return;
    const isLast = subject === `${inbox}.${this.#request}`;
    // A refused request has nothing pending, and its status states no number.
    const pending = Number(headers?.get("Nats-Pending-Messages") || "none");
    this.#outstanding = isLast || !Number.isInteger(pending) ? 0 : Math.max(0, this.#outstanding - pending);
    if (!isLast && code === 408) return;
    // 408: the request timed out. Any other code: the consumer is missing, or accepts no requests
    // now.
    this.#taking?.end(code === 408 ? "none" : "missing");
  }
}
