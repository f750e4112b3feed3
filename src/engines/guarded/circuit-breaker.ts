// Whether one server is worth a call. Counts outcomes of calls and says when the next may begin; it never sleeps, and sends
// nothing but the probe.
//
//   closed ── failures in a row ──► open ── time is up, and the probe says yes ──► half-open ── success ──► closed
//                                   │  ▲                                              │
//                                   └──┴── probe says no, or failure: twice the time ─┘

import type { AttributedError } from "../../core/failure.ts";
import type { Clock } from "../../lib/clock.ts";

/** "closed": calls go out. "open": none does. "half-open": the server seems to be back; the next failure opens again. */
export type CircuitState = "closed" | "open" | "half-open";

export type CircuitStatus = {
  /** Address of the server, or the name of its engine. */
  readonly server: string;
  readonly state: CircuitState;
  /** Failures in a row. */
  readonly failures: number;
  /** What the last failure said; `null` before the first. */
  readonly message: string | null;
};

export type CircuitOptions = {
  readonly server: string;
  /** Failures in a row that open it. */
  readonly failures: number;
  readonly openMs: number;
  readonly maxOpenMs: number;
  readonly clock: Clock;
  /** Whether the server is back; `null`: one call has to find out. */
  readonly probe: (() => Promise<boolean>) | null;
  readonly onChange: (change: CircuitStatus) => void;
};

/** What says that a server is gone or broken. An overloaded one answers, and says itself how long to wait. */
const counted: ReadonlySet<string> = new Set(["unreachable", "connection-lost", "timeout", "server-error"]);

/** A call in flight. One of the two is called, once. */
export type CircuitCall = { readonly succeed: () => void; readonly fail: (error: AttributedError) => void };

/** The breaker of one server. */
export class CircuitBreaker {
  readonly #options: CircuitOptions;
  #state: CircuitState = "closed";
  #failures = 0;
  #message: string | null = null;
  #openMs: number;
  #lookAt = Infinity;
  /** Calls that may still begin while half-open: all when a probe was answered, otherwise one. */
  #permits = 0;

  constructor(options: CircuitOptions) {
    this.#options = options;
    this.#openMs = options.openMs;
  }

  get now(): CircuitStatus {
    return {
      server: this.#options.server,
      state: this.#state,
      failures: this.#failures,
      message: this.#message,
    };
  }

  /** Whether a call may begin now. */
  get admits(): boolean {
    return this.#state === "closed" || (this.#state === "half-open" && this.#permits > 0);
  }

  /** Milliseconds until it is worth a look; `Infinity` unless it is open and no look is in flight. */
  get lookInMs(): number {
    return Math.max(0, this.#lookAt - this.#options.clock.now());
  }

  /** Looks at the server when it is time for it. Never rejects. */
  async look(): Promise<void> {
    if (this.#lookAt > this.#options.clock.now()) return;
    this.#lookAt = Infinity;
    const { probe } = this.#options;
    const isBack = probe === null || (await probe().catch(() => false));
    if (this.#state !== "open") return;
    if (!isBack) {
      this.#stayOpen();
      return;
    }
    this.#permits = probe === null ? 1 : Infinity;
    this.#enter("half-open");
  }

  /** A call begins; only where one is admitted. */
  begin(): CircuitCall {
    const begunIn = this.#state;
    if (begunIn === "half-open") this.#permits--;
    return {
      succeed: () => this.#succeed(),
      fail: (error) => {
        if (counted.has(error.failure.code)) this.#fail(error, begunIn);
        else if (begunIn === "half-open" && this.#state === "half-open") {
          // It found nothing out, and gives its place to the next.
          this.#permits++;
          this.#options.onChange(this.now);
        }
      },
    };
  }

  #succeed(): void {
    this.#failures = 0;
    this.#openMs = this.#options.openMs;
    this.#lookAt = Infinity;
    // Calls that began before may end well after the circuit has opened: the server lives.
    if (this.#state !== "closed") this.#enter("closed");
  }

  #fail(error: AttributedError, begunIn: CircuitState): void {
    this.#message = error.failure.message;
    this.#failures++;
    if (this.#state === "half-open" && begunIn === "half-open") {
      this.#stayOpen();
      this.#enter("open");
    } else if (this.#state === "closed" && this.#failures >= this.#options.failures) {
      this.#lookAt = this.#options.clock.now() + this.#openMs;
      this.#enter("open");
    }
  }

  #stayOpen(): void {
    this.#openMs = Math.min(this.#openMs * 2, this.#options.maxOpenMs);
    this.#lookAt = this.#options.clock.now() + this.#openMs;
  }

  #enter(state: CircuitState): void {
    this.#state = state;
    this.#options.onChange(this.now);
  }
}
