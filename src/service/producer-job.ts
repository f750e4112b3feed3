// One producer as its trainer sees it: numbered batches, each handed over once and returned again whenever it is requested again;
// a lease, pauses and ends. How groups come about is decided by the library (`rollout/producer`).

import { DeadlineError, withDeadline } from "../lib/deadline.ts";
import {
  createRolloutProducer,
  type EarlierProduction,
  type ProducerPlan,
  type ProducerState,
  type ProducerStatus,
  type RolloutProducer,
  type RunEpisode,
  type TakenGroup,
} from "../rollout/index.ts";
import { type ProducerDependencies, ProducerGroups } from "./producer-groups.ts";
import { groupIdOf, optionsOf, planOf, type ProducerRequest } from "./producer-request.ts";
import type { SteerAction } from "./request-log.ts";
import { ServiceError, throwClosing } from "./service-error.ts";

export type Batch = {
  readonly groups: readonly TakenGroup[];
  /** The producer had no more. */
  readonly isLast: boolean;
};

/** The state that earlier processes left. */
export type ProducerHistory = EarlierProduction & {
  /** Numbers of its groups in the service, by id. */
  readonly numbers: ReadonlyMap<string, number>;
  readonly batches: readonly Batch[];
  /** Its lease ran out, so it is paused. */
  readonly hasLapsed: boolean;
  /** Versions reported since it lapsed, perhaps by another trainer. */
  readonly missed: readonly string[];
};

/** "lapsed": no request of its trainer came during the lease. */
export type ProducerJobStatus = Omit<ProducerStatus, "state"> & { readonly state: ProducerState | "lapsed" };

export type BatchRequest = {
  /** `null`: as many as the trainer takes for one version. */
  readonly groups: number | null;
  readonly waitMs: number;
  /** Aborted when the client disconnects. */
  readonly signal: AbortSignal;
};

export type BatchOutcome = { readonly status: "ready" | "waiting" | "ended"; readonly groups: readonly TakenGroup[] };

/** A wait for the next batch, shared by all requests for it. */
type Take = {
  readonly number: number;
  readonly settled: Promise<"taken" | "ended" | "abandoned">;
  readonly abandon: AbortController;
  waiting: number;
};

export type ProducerJobOptions = {
  readonly producerId: string;
  readonly bodyHash: string;
  readonly request: ProducerRequest;
  readonly runner: RunEpisode;
  /** Episodes that it may have in flight. */
  readonly concurrency: number;
  /** What the engine has at the beginning. */
  readonly weightVersion: string | null;
};

export class ProducerJob {
  readonly producerId: string;
  readonly bodyHash: string;
  readonly request: ProducerRequest;
  readonly #dependencies: ProducerDependencies & { readonly onLapse: (job: ProducerJob) => void };
  readonly #options: ProducerJobOptions;
  readonly #plan: ProducerPlan;
  readonly #groups: ProducerGroups;
  #batches: Batch[] = [];
  #producer: RolloutProducer | null = null;
  /** Reported before it was started. */
  readonly #early: string[] = [];
  #weightVersion: string | null;
  #take: Take | null = null;
  #isFrozen = false;
  #hasLapsed = false;
  #missed: string[] = [];
  /** Set while it runs: when the lease ends, and how to stop its timer. */
  #lease: { readonly endsAt: number; readonly stop: () => void } | null = null;

  /** Throws a `ServiceError` for tasks that do not exist. */
  constructor(
    options: ProducerJobOptions,
    dependencies: ProducerDependencies & { readonly onLapse: (job: ProducerJob) => void },
  ) {
    const { producerId, bodyHash, request, runner } = options;
    this.producerId = producerId;
    this.bodyHash = bodyHash;
    this.request = request;
    this.#dependencies = dependencies;
    this.#options = options;
    this.#plan = planOf(request, producerId, dependencies.parts);
    this.#weightVersion = options.weightVersion;
    const state = (): ProducerState => this.#producer?.status.state ?? "running";
    this.#groups = new ProducerGroups(dependencies, { producerId, request, runner, state });
  }

  get split(): string {
    return this.#plan.taskset.split;
  }

  get status(): ProducerJobStatus {
    const { status } = this.#started;
    return this.#hasLapsed && status.state === "paused" ? { ...status, state: "lapsed" } : status;
  }

  /** Until it lapses; `null`: it does not. */
  get leaseLeftMs(): number | null {
    return this.#lease === null || this.status.state !== "running"
      ? null
      : Math.max(0, this.#lease.endsAt - this.#dependencies.clock.now());
  }

  get weightVersion(): string | null {
    return this.#weightVersion;
  }

  /** Batches that were handed over. */
  get batches(): number {
    return this.#batches.length;
  }

  /** It may still hand over groups in this process. */
  get isLive(): boolean {
    const state = this.#producer?.status.state ?? "running";
    return !this.#hasLapsed && (state === "running" || state === "paused" || state === "draining");
  }

  /** Begins, or resumes. */
  start(history: ProducerHistory): void {
    const { request, concurrency, weightVersion } = this.#options;
    const earlier = { ...history, versions: [...history.versions, ...this.#early] };
    this.#weightVersion = earlier.versions.at(-1) ?? weightVersion;
    this.#batches = [...history.batches];
    for (const { groupId } of history.begun) {
      const isDecided = history.state === "cancelled" || history.decided.has(groupId);
      this.#groups.restore({ groupId, groupIndex: history.numbers.get(groupId) ?? 0 }, { isDecided });
    }
    const { begin, runEpisode, decide } = this.#groups;
    this.#producer = createRolloutProducer(
      this.#plan,
      { runEpisode, earlier, store: { append: async () => undefined, appendGroup: decide } },
      {
        ...optionsOf(request),
        weightVersion,
        concurrency,
        nameGroup: (task, visit) => groupIdOf(this.producerId, task.index, visit),
        onBegin: begin,
      },
    );
    this.#hasLapsed = history.hasLapsed;
    this.#missed = [...history.missed];
    this.renew();
  }

  /** Its trainer sent a request: the lease begins again. One that lapsed needs a "continue" first. */
  renew(): void {
    this.#lease?.stop();
    this.#lease = null;
    if (this.#isFrozen || this.#producer?.status.state !== "running") return;
    const { clock } = this.#dependencies;
    const { leaseMs } = this.request;
    this.#lease = { endsAt: clock.now() + leaseMs, stop: clock.after(leaseMs, () => this.#lapse()) };
  }

  #lapse(): void {
    // A waiting request for a batch renews the lease.
    if ((this.#take?.waiting ?? 0) > 0) return this.renew();
    this.#lease = null;
    if (this.#isFrozen || this.#producer?.status.state !== "running") return;
    this.#hasLapsed = true;
    this.#producer.pause();
    this.#dependencies.onLapse(this);
  }

  /**
   * The trainer has new weights. With a training's name the report is from its own trainer and renews the lease; without one it may
   * be from another, and a lapsed producer receives it only when its trainer is back.
   */
  report(version: string): void {
    // The next process reads it in the log.
    if (this.#isFrozen) return;
    if (this.request.training !== null) {
      if (this.#hasLapsed) this.steer("continue");
      else this.renew();
    }
    if (this.#hasLapsed) return void this.#missed.push(version);
    this.#weightVersion = version;
    if (this.#producer === null) this.#early.push(version);
    else this.#producer.reportWeightVersion(version);
  }

  steer(action: SteerAction): void {
    if (this.#isFrozen) return;
    const producer = this.#started;
    this.#hasLapsed = false;
    for (const version of this.#missed.splice(0)) this.report(version);
    switch (action) {
      case "pause":
        producer.pause();
        break;
      case "continue":
        producer.continue();
        break;
      case "drain":
        void producer.drain();
        break;
      case "cancel":
        void this.#cancel(producer);
        break;
      default:
        action satisfies never;
    }
    this.renew();
  }

  /** Throws a `ServiceError` for a number that is not next, and with the fault of a producer that failed. */
  async batch(number: number, wish: BatchRequest): Promise<BatchOutcome> {
    const { maxStaleness, batchGroups } = this.request;
    const most = (maxStaleness + 1) * batchGroups;
    const count = wish.groups ?? batchGroups;
    if (count > most) {
      throw new ServiceError(
        "bad-request",
        `Cannot read the request: field "groups": it is ${count}, and at most ${most} may ever wait, (max_staleness + 1) * batch_groups.`,
      );
    }
    for (;;) {
      const known = this.#batches[number];
      if (known !== undefined) return { status: known.isLast ? "ended" : "ready", groups: known.groups };
      const next = this.#batches.length;
      if (number > next) {
        throw new ServiceError(
          "batch-out-of-order",
          `Cannot hand over batch ${number}: the next one is batch ${next}; request that one, or an earlier one again.`,
        );
      }
      if (this.#isFrozen) throwClosing();
      this.#take ??= this.#begin(number, count);
      const outcome = await this.#wait(this.#take, wish).finally(() => this.renew());
      if (outcome === "ended") return { status: "ended", groups: [] };
      if (outcome === "time-up") return { status: "waiting", groups: [] };
    }
  }

  /** Rejects waiting requests; nothing is handed over or decided any more. */
  freeze(): void {
    this.#isFrozen = true;
    this.renew();
    this.#groups.freeze();
    this.#take?.abandon.abort(closing);
  }

  /** Resolves when nothing is being written any more. */
  async idle(): Promise<void> {
    await this.#take?.settled.catch(() => undefined);
    await this.#groups.idle();
  }

  get #started(): RolloutProducer {
    if (this.#producer === null) throw new Error(`Producer "${this.producerId}" has not begun.`);
    return this.#producer;
  }

  async #cancel(producer: RolloutProducer): Promise<void> {
    await producer.cancel();
    if (producer.status.state === "cancelled") this.#groups.abandon();
  }

  #begin(number: number, count: number): Take {
    const abandon = new AbortController();
    const onTaken = (groups: readonly TakenGroup[]): Promise<void> =>
      this.#handOver(number, { groups, isLast: groups.length < count });
    const settled = this.#started.take(count, { signal: abandon.signal, onTaken }).then(
      ({ length }) => (length > 0 ? ("taken" as const) : ("ended" as const)),
      (error: unknown) => {
        if (error === timeUp) return "abandoned" as const;
        throw error;
      },
    );
    const take = { number, abandon, waiting: 0, settled: settled.finally(() => (this.#take = null)) };
    // Reported to the requests that wait; there may be none.
    take.settled.catch(() => undefined);
    return take;
  }

  /** On disk before it is sent: from then on this batch is these groups, whatever happens. */
  async #handOver(number: number, batch: Batch): Promise<void> {
    await this.#dependencies.parts.requests.append({ type: "batch", producerId: this.producerId, number, ...batch });
    this.#batches.push(batch);
  }

  async #wait(take: Take, { waitMs, signal }: BatchRequest): Promise<"taken" | "ended" | "abandoned" | "time-up"> {
    take.waiting++;
    try {
      if (waitMs > 0) return await withDeadline(() => take.settled, { timeoutMs: waitMs, signal });
    } catch (error) {
      if (!(error instanceof DeadlineError || signal.aborted)) throw this.#refusal(error);
    } finally {
      take.waiting--;
    }
    if (take.waiting > 0) return "time-up";
    // A batch that is being handed over is awaited: only the disk is slow then.
    take.abandon.abort(timeUp);
    const outcome = await take.settled.catch((error: unknown) => {
      throw this.#refusal(error);
    });
    return outcome === "abandoned" ? "time-up" : outcome;
  }

  #refusal(error: unknown): unknown {
    if (error === closing) throwClosing();
    if (this.status.state !== "failed") return error;
    const fault = (error instanceof Error ? error.message : String(error)).replace(/\.$/, "");
    return new ServiceError(
      "producer-failed",
      `Cannot hand over a batch: producer "${this.producerId}" failed: ${fault}. Start the service again to resume.`,
    );
  }
}

const timeUp = new Error("No request waits for the batch any more.");
const closing = new Error("The service is closing.");
