// An `EnvironmentSource` for any remote service. This is the only place for the deadlines of its
// calls, the bounds on its answers, the queue for its capacity, and the guarantee that each opened
// session is closed once in every case. The loop checks the types of values
// (`rollout/episode/checked-environment.ts`), as for every environment.

import { createHash } from "node:crypto";
import type { Environment, EnvironmentSource, Task, ToolResult } from "../../core/environment.ts";
import { AttributedError, messageOf } from "../../core/failure.ts";
import type { Tool } from "../../core/message.ts";
import { type Clock, systemClock } from "../../lib/clock.ts";
import { DeadlineError, Waiters, withDeadline } from "../../lib/deadline.ts";
import { dumpJson } from "../../python-semantics/json/dump-json.ts";
import { type RemoteFaultCode, remoteFault, type RemoteService, type RemoteSession } from "./remote-service.ts";

/** Durations in milliseconds. */
export type RemoteLimits = {
  /** Deadline of one opening, counted from the moment that there is capacity for it. @default 60000 */
  readonly openMs: number;
  /** Deadline of an opening as a whole, the wait for capacity included. @default 1800000 */
  readonly queueMs: number;
  /** Deadline of one tool call or one utterance. @default 60000 */
  readonly callMs: number;
  /** @default 120000 */
  readonly gradeMs: number;
  /**
   * Deadline of a close; a session that takes longer is abandoned and counted in `unclosed`.
   * @default 10000
   */
  readonly closeMs: number;
  /** @default 512 */
  readonly maxTools: number;
  /**
   * Limit on a result's text, and on the guidelines, the opening and all tool definitions together.
   * @default 10000000
   */
  readonly maxCharacters: number;
};

export const defaultRemoteLimits: RemoteLimits = Object.freeze({
  openMs: 60_000,
  queueMs: 1_800_000,
  callMs: 60_000,
  gradeMs: 120_000,
  closeMs: 10_000,
  maxTools: 512,
  maxCharacters: 10_000_000,
});

/** Pauses while sessions of other processes take the capacity: short at first, then longer. */
const backoffMs = { first: 100, most: 5_000 };

/** Counts of a source's sessions. `opened` is `closed` plus `unclosed` plus `active`. */
export type SessionCounts = {
  readonly opened: number;
  readonly closed: number;
  /** Sessions whose close failed or took too long. */
  readonly unclosed: number;
  readonly active: number;
  /** Maximum number of concurrent sessions so far. */
  readonly peak: number;
  /** Openings that had to wait for capacity. */
  readonly queued: number;
};

export interface RemoteSource extends EnvironmentSource {
  sessions(): SessionCounts;
  /** Releases everything that the service keeps in addition to its sessions. Idempotent. */
  close(): Promise<void>;
}

/**
 * Makes the source. It takes signal and seed from the options of `open`, and waits for capacity
 * without a deadline from the loop.
 */
export function remoteSource(
  service: RemoteService,
  options: { readonly limits?: Partial<RemoteLimits>; readonly clock?: Clock } = {},
): RemoteSource {
  const limits = { ...defaultRemoteLimits, ...options.limits };
  const { clock = systemClock } = options;
  const ledger = new Ledger(service, { limits, clock });
  return {
    name: service.name,
    splits: service.splits,
    users: service.users,
    argumentErrors: service.argumentErrors,
    unknownTools: service.unknownTools,
    resume: service.isDeterministic ? "replay" : "restart",
    boundsOpening: true,
    taskset: (split) => service.taskset(split),
    open: async (task, { signal, seed } = { signal: new AbortController().signal, seed: 0 }) => {
      const what = `open a session for task "${task.id}"`;
      const session = await ledger.unlessLate(what, { ms: limits.queueMs, clock, signal }, (inner) =>
        ledger.open(task, { signal: inner, seed }),
      );
      try {
        checkSize(session, limits);
      } catch (error) {
        await ledger.close(session);
        throw error;
      }
      return remoteEnvironment(task, session, { limits, clock, close: () => ledger.close(session) });
    },
    sessions: () => ledger.counts,
    close: () => service.close(),
  };
}

type Bound = { readonly ms: number; readonly clock: Clock; readonly signal: AbortSignal | undefined };

/**
 * Awaits a call to the service within a deadline. Any rejection becomes a typed fault; a
 * cancellation passes.
 */
async function bounded<T>(what: string, bound: Bound, action: (signal: AbortSignal) => Promise<T>): Promise<T> {
  try {
    return await withDeadline(action, { timeoutMs: bound.ms, clock: bound.clock, signal: bound.signal });
  } catch (error) {
    if (bound.signal?.aborted) throw bound.signal.reason;
    throw faultOf(error, what);
  }
}

function faultOf(error: unknown, what: string): AttributedError {
  if (error instanceof AttributedError) return error;
  if (error instanceof DeadlineError) {
    const message = `Cannot ${what}: no reply within ${error.timeoutMs} ms; raise the time limit, or find out why the server takes so long.`;
    return remoteFault("remote-timeout", message, { cause: error });
  }
  return remoteFault("remote-error", `Cannot ${what}: ${messageOf(error)}`, { cause: error });
}

const codeOf = (error: unknown): RemoteFaultCode | null =>
  error instanceof AttributedError ? (error.failure.code as RemoteFaultCode) : null;

/** The sessions of a service: capacity for new ones, and counts of all. */
class Ledger {
  readonly #service: RemoteService;
  readonly #limits: RemoteLimits;
  readonly #clock: Clock;
  readonly #room = new Waiters();
  readonly #closing = new WeakMap<RemoteSession, Promise<void>>();
  /** Sessions that are open, being opened or being closed. */
  #taken = 0;
  #counts = { opened: 0, closed: 0, unclosed: 0, active: 0, peak: 0, queued: 0 };

  constructor(service: RemoteService, { limits, clock }: { readonly limits: RemoteLimits; readonly clock: Clock }) {
    this.#service = service;
    this.#limits = limits;
    this.#clock = clock;
  }

  get counts(): SessionCounts {
    return { ...this.#counts };
  }

  /**
   * Opens a session once there is capacity. If the service still refuses it for lack of capacity,
   * waits until one of our sessions ends, or for a pause, and tries again.
   */
  async open(task: Task, options: { readonly signal: AbortSignal; readonly seed: number }): Promise<RemoteSession> {
    const { signal } = options;
    const hasRoom = (): boolean => this.#service.capacity === null || this.#taken < this.#service.capacity;
    let isCounted = false;
    const waits = (): void => {
      if (!isCounted) this.#counts.queued++;
      isCounted = true;
    };
    for (let pauseMs = backoffMs.first; ; pauseMs = Math.min(2 * pauseMs, backoffMs.most)) {
      while (!hasRoom()) {
        waits();
        await this.#room.wait(signal);
      }
      this.#taken++;
      try {
        return await this.#openNow(task, options);
      } catch (error) {
        this.#release();
        if (signal.aborted || codeOf(error) !== "remote-capacity") throw error;
      }
      waits();
      await this.#pause(pauseMs, signal);
    }
  }

  #openNow(
    task: Task,
    { signal, seed }: { readonly signal: AbortSignal; readonly seed: number },
  ): Promise<RemoteSession> {
    const bound = { ms: this.#limits.openMs, clock: this.#clock, signal };
    return this.unlessLate(`open a session for task "${task.id}"`, bound, async (inner) => {
      const session = await this.#service.open(task, { signal: inner, seed });
      this.#counts.opened++;
      this.#counts.active++;
      this.#counts.peak = Math.max(this.#counts.peak, this.#counts.active);
      return session;
    });
  }

  /** Same as {@link bounded}; a session that opens after its deadline or cancellation is closed. */
  async unlessLate(
    what: string,
    bound: Bound,
    action: (signal: AbortSignal) => Promise<RemoteSession>,
  ): Promise<RemoteSession> {
    let opening: Promise<RemoteSession> | null = null;
    try {
      return await bounded(what, bound, (signal) => (opening = action(signal)));
    } catch (error) {
      void (opening as Promise<RemoteSession> | null)?.then(
        (session) => this.close(session),
        () => undefined,
      );
      throw error;
    }
  }

  /** Resolves when the session is closed or abandoned. Repeated calls close it once. */
  close(session: RemoteSession): Promise<void> {
    const begun = this.#closing.get(session) ?? this.#close(session);
    this.#closing.set(session, begun);
    return begun;
  }

  async #close(session: RemoteSession): Promise<void> {
    try {
      await withDeadline(() => session.close(), { timeoutMs: this.#limits.closeMs, clock: this.#clock });
      this.#counts.closed++;
    } catch {
      // The episode is done and its reward is known; a lease on the service's side ends the rest.
      this.#counts.unclosed++;
    }
    this.#counts.active--;
    this.#release();
  }

  #release(): void {
    this.#taken--;
    this.#room.wake();
  }

  async #pause(ms: number, signal: AbortSignal): Promise<void> {
    const woken = new AbortController();
    const cancel = this.#clock.after(ms, () => woken.abort());
    try {
      await withDeadline(() => this.#room.wait(woken.signal).catch(() => undefined), { timeoutMs: Infinity, signal });
    } finally {
      cancel();
      woken.abort();
    }
  }
}

function checkSize({ tools, guidelines, opening }: RemoteSession, { maxTools, maxCharacters }: RemoteLimits): void {
  if (tools.length > maxTools) {
    throw remoteFault(
      "remote-invalid",
      `Cannot use ${tools.length} tools of a session: at most ${maxTools} are allowed.`,
    );
  }
  const characters = (tool: Tool): number => dumpJson(tool.definition).length;
  const size = tools.reduce((sum, tool) => sum + characters(tool), guidelines.length + (opening ?? "").length);
  if (size <= maxCharacters) return;
  const message = `Cannot use the tools and guidelines of a session: they have ${size} characters, expected at most ${maxCharacters}.`;
  throw remoteFault("remote-invalid", message);
}

type EnvironmentParts = { readonly limits: RemoteLimits; readonly clock: Clock; readonly close: () => Promise<void> };

function remoteEnvironment(
  task: Task,
  session: RemoteSession,
  { limits, clock, close }: EnvironmentParts,
): Environment {
  const seen = createHash("sha256");
  let broken: unknown = null;
  const within = async <T>(
    what: string,
    bound: { readonly ms: number; readonly signal: AbortSignal | undefined },
    action: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> => {
    if (broken !== null) throw broken;
    try {
      return await bounded(what, { ...bound, clock }, action);
    } catch (error) {
      // The effect on the service is not known, so the session cannot be trusted any more.
      broken = error;
      throw error;
    }
  };
  return {
    task,
    guidelines: session.guidelines,
    tools: session.tools,
    info: session.info,
    opening: session.opening ?? null,
    call: (call, options) =>
      within(`carry out "${call.name}"`, { ms: limits.callMs, signal: options?.signal }, async (inner) => {
        const result = await session.call(call, { signal: inner });
        checkResult(call.name, result, limits);
        seen.update(dumpJson([call.name, call.arguments, result.text, result.isError]));
        return result;
      }),
    receiveUtterance: (utterance, options) =>
      within("pass on the utterance", { ms: limits.callMs, signal: options?.signal }, async (inner) => {
        await session.receiveUtterance(utterance, { signal: inner });
        seen.update(dumpJson(["say", utterance]));
      }),
    grade: (ending, options) =>
      within("grade", { ms: limits.gradeMs, signal: options?.signal }, (inner) =>
        session.grade(ending, { signal: inner }),
      ),
    // Digest of the calls and their answers, because the state itself is remote.
    digest: () => seen.copy().digest("hex"),
    close,
  };
}

function checkResult(name: string, { text }: ToolResult, { maxCharacters }: RemoteLimits): void {
  if (typeof text !== "string" || text.length <= maxCharacters) return;
  const message = `Cannot read the result of "${name}": it has ${text.length} characters, expected at most ${maxCharacters}.`;
  throw remoteFault("remote-invalid", message);
}
