// One engine in front of one or more servers. Calls of an episode stay on one server, for its
// prefix cache; a server that fails repeatedly gets no calls until it is back, and its episodes go
// to the others or wait. The engine never retries: retries belong to the loop.

import type { AdapterControl } from "../../core/adapters.ts";
import type { ConstraintKind } from "../../core/constraint.ts";
import type {
  Engine,
  EngineLoad,
  EngineLoadSource,
  SampleOptions,
  SampleRequest,
  SampleResult,
  SamplingParams,
} from "../../core/engine.ts";
import { attribute, AttributedError, ConfigurationError } from "../../core/failure.ts";
import type { Scorer } from "../../core/scoring.ts";
import { sumLoads } from "../../http/index.ts";
import { type Clock, systemClock } from "../../lib/clock.ts";
import { deriveSeed } from "../../lib/random.ts";
import { type CircuitCall, type CircuitStatus, CircuitBreaker } from "./circuit-breaker.ts";

export type GuardedEngineOptions = {
  /** Number of consecutive failures that open the circuit of a server. Default 5; at least 1. */
  readonly failures?: number;
  /**
   * Initial time in milliseconds that a circuit stays open; each failed probe doubles it. Default
   * 1,000.
   */
  readonly openMs?: number;
  /**
   * Maximum time in milliseconds between two probes of an open circuit. Default 30,000; at least
   * `openMs`.
   */
  readonly maxOpenMs?: number;
  /**
   * Maximum time in milliseconds that a call waits for an available server; then it fails for good.
   * Default 300,000.
   */
  readonly maxWaitMs?: number;
  /** Called for every change of a circuit, for logs and metrics. Must be quick and must not throw. */
  readonly onChange?: (change: CircuitStatus) => void;
  /** Default: the system clock. */
  readonly clock?: Clock;
};

/** Throws a `ConfigurationError` that names the option and its value. */
function checkGuardedOptions(
  options: Required<Pick<GuardedEngineOptions, "failures" | "openMs" | "maxOpenMs" | "maxWaitMs">>,
): void {
  const refuse = (name: keyof typeof options, expected: string): never => {
    throw new ConfigurationError(`Cannot guard an engine: ${name} is ${options[name]}, expected ${expected}.`);
  };
  const { failures, openMs, maxOpenMs, maxWaitMs } = options;
  if (!Number.isInteger(failures) || failures < 1) refuse("failures", "a whole number of at least 1");
  if (!(openMs > 0)) refuse("openMs", "a positive number");
  if (!(maxOpenMs >= openMs)) refuse("maxOpenMs", `a number of at least ${openMs}`);
  if (!(maxWaitMs >= 0)) refuse("maxWaitMs", "a number of at least 0");
}

/** An engine that guards its servers with circuit breakers. */
export interface GuardedEngine extends Engine, EngineLoadSource, AdapterControl {
  isReady(options?: { readonly signal?: AbortSignal }): Promise<boolean>;
  reportWeightVersion(version: string): Promise<readonly (string | null)[]>;
  /** The current circuits, one for each server in the order given. */
  circuits(): readonly CircuitStatus[];
}

/** Engines that use HTTP have an address. */
type Guardable = Engine & Partial<EngineLoadSource & AdapterControl> & { readonly address?: string };

/**
 * Guards engines, one for each server; closing it closes them. Throws a `ConfigurationError` for
 * options out of bounds and for an empty list.
 *
 * Calls with a routing key go to the same server while its circuit admits them; the others go to
 * the server with the fewest calls in flight. If no circuit admits a call, the call waits; after
 * `maxWaitMs` it fails with code "unreachable", which is not retryable.
 *
 * @example
 * const engine = createGuardedEngine([createSglangEngine({ url: "http://a:30000" }), createSglangEngine({ url: "http://b:30000" })]);
 */
export function createGuardedEngine(engines: readonly Guardable[], options: GuardedEngineOptions = {}): GuardedEngine {
  if (engines.length === 0) throw new ConfigurationError("Cannot guard an engine: there is none; pass at least one.");
  const { failures = 5, openMs = 1000, maxOpenMs = 30_000, maxWaitMs = 300_000, clock = systemClock } = options;
  checkGuardedOptions({ failures, openMs, maxOpenMs, maxWaitMs });
  return new Guarded(engines, { failures, openMs, maxOpenMs, maxWaitMs, clock, onChange: options.onChange ?? null });
}

type Member = {
  readonly engine: Guardable;
  readonly server: string;
  readonly circuit: CircuitBreaker;
  running: number;
};

/** A call that has a server. */
type Begun = { readonly member: Member; readonly call: CircuitCall };

type Options = Required<Omit<GuardedEngineOptions, "onChange">> & {
  readonly onChange: ((change: CircuitStatus) => void) | null;
};

class Guarded implements GuardedEngine {
  readonly name: string;
  /** Kinds that every server takes. */
  readonly constraints: readonly ConstraintKind[];
  /** Absent if one of the engines cannot score. */
  declare readonly score?: Scorer["score"];
  /** The first problem of any engine; absent if one of them never reports kept ids. */
  declare readonly samplingMaskProblem?: (sampling: SamplingParams) => string | null;
  readonly #members: readonly Member[];
  readonly #maxWaitMs: number;
  readonly #clock: Clock;
  /** Callbacks of waiting calls in the order of arrival, called when a circuit has changed. */
  readonly #waiting = new Set<() => void>();
  #cancelWatch: (() => void) | null = null;

  constructor(engines: readonly Guardable[], options: Options) {
    const { onChange, maxWaitMs, ...circuit } = options;
    this.name = engines[0]!.name;
    const [first, ...others] = engines.map(({ constraints = [] }) => constraints);
    this.constraints = first!.filter((kind) => others.every((kinds) => kinds.includes(kind)));
    this.#maxWaitMs = maxWaitMs;
    this.#clock = options.clock;
    this.#members = engines.map((engine) => {
      const server = engine.address ?? engine.name;
      const breaker = new CircuitBreaker({
        ...circuit,
        server,
        probe: engine.isReady === undefined ? null : () => engine.isReady!(),
        onChange: (change) => {
          onChange?.(change);
          for (const wake of [...this.#waiting]) wake();
          this.#watch();
        },
      });
      return { engine, server, circuit: breaker, running: 0 };
    });
    if (engines.every((engine) => engine.samplingMaskProblem !== undefined)) {
      this.samplingMaskProblem = (sampling) =>
        engines.map((engine) => engine.samplingMaskProblem!(sampling)).find((problem) => problem !== null) ?? null;
    }
    if (engines.every(({ score }) => score !== undefined)) {
      this.score = (request, given = {}) =>
        this.#call(request.routingKey, given.signal, (engine) => engine.score!(request, given));
    }
  }

  sample(request: SampleRequest, options: SampleOptions = {}): Promise<SampleResult> {
    return this.#call(request.routingKey, options.signal, (engine) => engine.sample(request, options));
  }

  async #call<T>(
    routingKey: string | null,
    signal: AbortSignal | undefined,
    work: (engine: Guardable) => Promise<T>,
  ): Promise<T> {
    const { member, call } = this.#begin(routingKey) ?? (await this.#wait(routingKey, signal));
    try {
      const result = await work(member.engine);
      call.succeed();
      return result;
    } catch (error) {
      const fault = attribute(error, "engine");
      call.fail(fault);
      throw fault;
    } finally {
      member.running--;
    }
  }

  /** True if one of the servers accepts requests. */
  async isReady(options?: { readonly signal?: AbortSignal }): Promise<boolean> {
    const answers = await Promise.all(
      this.#members
        .filter(({ circuit }) => circuit.admits)
        .map(async ({ engine }) => (await engine.isReady?.(options).catch(() => false)) ?? true),
    );
    return answers.includes(true);
  }

  /** Reports the version to every server; rejects with the first failure, after all have answered. */
  async reportWeightVersion(version: string): Promise<readonly (string | null)[]> {
    return (await this.#ofAll(async (engine) => engine.reportWeightVersion?.(version) ?? [])).flat();
  }

  /** Rejects with the first failure, after all servers have answered. */
  async loadAdapter(...given: Parameters<AdapterControl["loadAdapter"]>): Promise<void> {
    await this.#ofAll(async (engine) => adaptersOf(engine).loadAdapter(...given));
  }

  async unloadAdapter(...given: Parameters<AdapterControl["unloadAdapter"]>): Promise<void> {
    await this.#ofAll(async (engine) => adaptersOf(engine).unloadAdapter(...given));
  }

  async checkAdapter(...given: Parameters<AdapterControl["checkAdapter"]>): Promise<void> {
    await this.#ofAll(async (engine) => adaptersOf(engine).checkAdapter(...given));
  }

  /** The results of all servers. Rejects with the first failure, after all have answered. */
  async #ofAll<T>(work: (engine: Guardable) => Promise<T>): Promise<readonly T[]> {
    const outcomes = await Promise.allSettled(this.#members.map(({ engine }) => work(engine)));
    return outcomes.map((outcome) => {
      if (outcome.status === "rejected") throw outcome.reason;
      return outcome.value;
    });
  }

  /** Total load of the available servers; `null` if none of them reports it. */
  async load(options?: { readonly signal?: AbortSignal }): Promise<EngineLoad | null> {
    const answers = await Promise.all(
      this.#members
        .filter(({ circuit }) => circuit.admits)
        .map(async ({ engine }) => (await engine.load?.(options).catch(() => null)) ?? null),
    );
    return sumLoads(answers);
  }

  circuits(): readonly CircuitStatus[] {
    return this.#members.map(({ circuit }) => circuit.now);
  }

  async close(): Promise<void> {
    await Promise.all(this.#members.map(({ engine }) => engine.close()));
  }

  /** `null` if no circuit admits a call. */
  #begin(key: string | null): Begun | null {
    const member = this.#choose(key);
    if (member === null) return null;
    member.running++;
    return { member, call: member.circuit.begin() };
  }

  #choose(key: string | null): Member | null {
    let best: Member | null = null;
    let most = -Infinity;
    for (const member of this.#members) {
      // Calls that are served elsewhere trigger the probe of a server that gets no calls.
      if (member.circuit.lookInMs === 0) void member.circuit.look();
      if (!member.circuit.admits) continue;
      if (this.#members.length === 1) return member;
      // Rendezvous hashing: the highest hash of server and key wins, so only the episodes of a lost
      // server move.
      const weight = key === null ? -member.running : deriveSeed(0, member.server, key);
      if (weight <= most) continue;
      best = member;
      most = weight;
    }
    return best;
  }

  /** Resolves when a call has begun. Rejects after `maxWaitMs` or when the signal aborts. */
  #wait(key: string | null, signal: AbortSignal | undefined): Promise<Begun> {
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        this.#waiting.delete(look);
        if (this.#waiting.size === 0) this.#stopWatching();
        cancelTimer();
        signal?.removeEventListener("abort", onAbort);
      };
      const look = (): void => {
        const begun = this.#begin(key);
        if (begun === null) return;
        leave();
        resolve(begun);
      };
      const end = (error: AttributedError): void => {
        leave();
        reject(error);
      };
      const onAbort = (): void =>
        end(failure("cancelled", `Cannot sample from ${this.#servers()}: the caller cancelled it.`));
      const cancelTimer = this.#clock.after(this.#maxWaitMs, () => end(this.#gaveUp()));
      this.#waiting.add(look);
      signal?.addEventListener("abort", onAbort, { once: true });
      if (signal?.aborted === true) onAbort();
      this.#watch();
    });
  }

  /** Probes open circuits when due, for as long as a call waits. */
  #watch(): void {
    this.#stopWatching();
    const ms = Math.min(...this.#members.map(({ circuit }) => circuit.lookInMs));
    if (this.#waiting.size === 0 || ms === Infinity) return;
    this.#cancelWatch = this.#clock.after(ms, () => {
      this.#cancelWatch = null;
      for (const { circuit } of this.#members) void circuit.look().then(() => this.#watch());
    });
  }

  #stopWatching(): void {
    this.#cancelWatch?.();
    this.#cancelWatch = null;
  }

  #gaveUp(): AttributedError {
    const [worst] = this.#members.map(({ circuit }) => circuit.now).toSorted((a, b) => b.failures - a.failures);
    const last = worst?.message ?? null;
    return failure(
      "unreachable",
      `Cannot sample from ${this.#servers()}: no call succeeded for ${this.#maxWaitMs} ms after ${worst?.failures} failures in a row` +
        `${last === null ? "" : `, the last of them: ${last.replace(/\.$/, "")}`}; see to the server, and start or resume the run.`,
    );
  }

  #servers(): string {
    return this.#members.map(({ server }) => server).join(", ");
  }
}

/** Throws an `AttributedError` for an engine that has no adapters. */
function adaptersOf(engine: Guardable): AdapterControl {
  const { loadAdapter, unloadAdapter, checkAdapter } = engine;
  if (loadAdapter !== undefined && unloadAdapter !== undefined && checkAdapter !== undefined) {
    return engine as Guardable & AdapterControl;
  }
  const message = `Cannot use an adapter with engine "${engine.name}": it has none; use SGLang or vLLM.`;
  throw new AttributedError({ boundary: "engine", code: "bad-request", message, retryable: false, cause: null });
}

function failure(code: "unreachable" | "cancelled", message: string): AttributedError {
  return new AttributedError({ boundary: "engine", code, message, retryable: false, cause: null });
}
