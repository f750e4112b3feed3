// Circuit breaker for one server. It counts outcomes of calls and decides when the next may begin;
// it never sleeps, and sends nothing but the probe.
//
//   closed ── failures in a row ──► open ── time is up, and the probe succeeds ──► half-open ── success ──► closed
//                                   │  ▲                                              │
//                                   └──┴── probe fails, or a call: twice the time ─┘

import type { AttributedError } from "../../core/failure.ts";
import type { Clock } from "../../lib/clock.ts";

/**
 * "closed": calls go out. "open": no call does. "half-open": the server seems to be back; the next
 * failure opens the circuit again.
 */
export type CircuitState = "closed" | "open" | "half-open";

export type CircuitStatus = {
  /** Address of the server, or the name of its engine. */
  readonly server: string;
  readonly state: CircuitState;
  /** Number of consecutive failures. */
  readonly failures: number;
  /** Message of the last failure; `null` before the first. */
  readonly message: string | null;
};

export type CircuitOptions = {
  readonly server: string;
  /** Number of consecutive failures that open the circuit. */
  readonly failures: number;
  readonly openMs: number;
  readonly maxOpenMs: number;
  readonly clock: Clock;
  /**
   * Resolves to true if the server is back; `null` without a probe, so that one call has to find
   * out.
   */
  readonly probe: (() => Promise<boolean>) | null;
  readonly onChange: (change: CircuitStatus) => void;
};

/**
 * Failure codes that mean that a server is gone or broken. An overloaded server still answers, and
 * states how long to wait.
 */
const counted: ReadonlySet<string> = new Set(["unreachable", "connection-lost", "timeout", "server-error"]);

/** A call in flight. Exactly one of the two functions is called, once. */
export type CircuitCall = { readonly succeed: () => void; readonly fail: (error: AttributedError) => void };

/** The circuit breaker of one server. */
export class CircuitBreaker {
  readonly #options: CircuitOptions;
  #state: CircuitState = "closed";
  #failures = 0;
  #message: string | null = null;
  #openMs: number;
  #lookAt = Infinity;
  /**
   * Number of calls that may still begin while half-open: unlimited after a successful probe,
   * otherwise one.
   */
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

  /** True if a call may begin now. */
  get admits(): boolean {
    return this.#state === "closed" || (this.#state === "half-open" && this.#permits > 0);
  }

  /**
   * Milliseconds until the server should be probed; `Infinity` unless the circuit is open and no
   * probe is in flight.
   */
  get lookInMs(): number {
    return Math.max(0, this.#lookAt - this.#options.clock.now());
  }

  /** Probes the server when a probe is due. Never rejects. */
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

  /** Starts a call; allowed only if `admits` is true. */
  begin(): CircuitCall {
    const begunIn = this.#state;
    if (begunIn === "half-open") this.#permits--;
    return {
      succeed: () => this.#succeed(),
      fail: (error) => {
        if (counted.has(error.failure.code)) this.#fail(error, begunIn);
        else if (begunIn === "half-open" && this.#state === "half-open") {
          // The call learned nothing about the server, so its permit goes to the next call.
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
    // Calls that began earlier may succeed well after the circuit has opened, which shows that the
    // server is alive.
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
