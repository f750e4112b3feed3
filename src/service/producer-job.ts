// One producer as its trainer sees it: numbered batches, each assigned once and returned again
// whenever it is requested again; a lease, pauses, and the end. The library (`rollout/producer`)
// decides how groups are made. Every change is in the request log before it takes effect. A later
// process creates the same producer, replays its log entries (`replay`, `report`), and starts it.

import type { GroupRecord } from "../core/index.ts";
import { DeadlineError, withDeadline } from "../lib/deadline.ts";
import { deriveSeed } from "../lib/random.ts";
import {
  createCurriculum,
  createRolloutProducer,
  type EarlierProduction,
  type ProducerPlan,
  type ProducerState,
  type ProducerStatus,
  type RolloutProducer,
  type DispatchEpisode,
  type TakenGroup,
  tasksInOrder,
} from "../rollout/index.ts";
import type { SharedParts } from "./episode-pool.ts";
import { findTaskset, type TaskOptions } from "./jobs.ts";
import { groupIdOf, ProducerGroups } from "./producer-groups.ts";
import type { LoggedBegin, LoggedRequest, SteerAction } from "./request-log.ts";
import type { ProducerRequest } from "./requests.ts";
import { ServiceError, throwClosing } from "./service-error.ts";

export type Batch = {
  readonly groups: readonly TakenGroup[];
  /** True if the producer had no more groups. */
  readonly isLast: boolean;
};

/**
 * "lapsed": paused until the next request of its trainer, because none arrived during the lease.
 */
type State = ProducerState | "lapsed";

export type BatchRequest = {
  /** Number of groups; `null` for the number that the trainer takes per weight version. */
  readonly groups: number | null;
  readonly waitMs: number;
  /** Aborted when the client disconnects. */
  readonly signal: AbortSignal;
};

export type BatchOutcome = { readonly status: "ready" | "waiting" | "ended"; readonly groups: readonly TakenGroup[] };

/** A wait for the next batch, shared by all requests for it. */
type Take = {
  readonly settled: Promise<"taken" | "ended" | "abandoned">;
  readonly abandon: AbortController;
  waiting: number;
};

export type ProducerJobOptions = {
  readonly producerId: string;
  readonly request: ProducerRequest;
  readonly runner: DispatchEpisode;
  /** Weight version of the engine at the beginning. */
  readonly weightVersion: string | null;
};

export class ProducerJob {
  readonly producerId: string;
  readonly request: ProducerRequest;
  /** Resolves once its request is in the request log. */
  logged: Promise<void> = Promise.resolve();
  /** Decisions of earlier processes on its groups, in order. */
  readonly decided = new Map<string, GroupRecord>();
  readonly #options: ProducerJobOptions;
  readonly #shared: SharedParts;
  readonly #plan: ProducerPlan;
  readonly #groups: ProducerGroups;
  readonly #batches: Batch[] = [];
  /** Groups that earlier processes began, as recorded in the request log. */
  readonly #begun: LoggedBegin[] = [];
  #earlierState: EarlierProduction["state"] = "running";
  /** Weight versions reported before it was started. */
  readonly #early: string[] = [];
  /** Weight versions reported since it lapsed, perhaps by another trainer. */
  readonly #missed: string[] = [];
  #hasLapsed = false;
  #weightVersion: string | null;
  #producer: RolloutProducer | null = null;
  #take: Take | null = null;
  /** The running lease: its end, and a function that stops its timer. */
  #lease: { readonly endsAt: number; readonly stop: () => void } | null = null;

  /** Creates a producer. Throws a `ServiceError` for tasks that do not exist. */
  constructor(options: ProducerJobOptions, shared: SharedParts) {
    const { producerId, request, runner, weightVersion } = options;
    this.producerId = producerId;
    this.request = request;
    this.#options = options;
    this.#shared = shared;
    this.#plan = planOf(request, producerId, shared.parts);
    this.#weightVersion = weightVersion;
    this.#groups = new ProducerGroups(shared, { producerId, request, runner, state: () => this.#state });
  }

  get split(): string {
    return this.#plan.taskset.split;
  }

  get status(): Omit<ProducerStatus, "state"> & { readonly state: State } {
    const { status } = this.#started;
    return this.#hasLapsed && status.state === "paused" ? { ...status, state: "lapsed" } : status;
  }

  /** Time until the lease runs out, in milliseconds; `null` if it does not run. */
  get leaseLeftMs(): number | null {
    if (this.#lease === null || this.#state !== "running") return null;
    return Math.max(0, this.#lease.endsAt - this.#shared.clock.now());
  }

  get weightVersion(): string | null {
    return this.#weightVersion;
  }

  /** Number of batches that were handed over. */
  get batches(): number {
    return this.#batches.length;
  }

  /** True if it may still hand over groups in this process. */
  get isLive(): boolean {
    return !this.#hasLapsed && ["running", "paused", "draining"].includes(this.#state);
  }

  get #state(): ProducerState {
    return this.#producer?.status.state ?? "running";
  }

  get #started(): RolloutProducer {
    if (this.#producer === null) throw new Error(`Producer "${this.producerId}" has not begun.`);
    return this.#producer;
  }

  /** Replays a log entry of an earlier process, before the producer is started. */
  replay(line: LoggedRequest): void {
    if (line.type === "begin") this.#begun.push(line);
    if (line.type === "batch") this.#batches[line.number] = { groups: line.groups, isLast: line.isLast };
    if (line.type === "steer") this.#apply(line.action);
  }

  /**
   * Begins, or resumes the replayed state: groups that were handed over and not recorded are
   * recorded first.
   */
  async start(): Promise<void> {
    const { request, decided } = this;
    const handedOver = new Set(this.#batches.flatMap(({ groups }) => groups.map(({ groupId }) => groupId)));
    const isCancelled = this.#earlierState === "cancelled";
    if (this.#begun.length > 0) await this.#groups.restore(this.#begun, { decided, handedOver, isCancelled });
    const { begin, runEpisode, decide } = this.#groups;
    const earlier = { state: this.#earlierState, begun: this.#begun, decided, versions: this.#early };
    this.#producer = createRolloutProducer(
      this.#plan,
      {
        runEpisode,
        earlier,
        rank: this.#groups.rank,
        opensEpisodes: false,
        store: { append: async () => undefined, appendGroup: decide },
      },
      {
        ...request.production,
        weightVersion: this.#options.weightVersion,
        concurrency: this.#shared.limits.concurrency,
        nameGroup: (task, visit) => groupIdOf(this.producerId, task.index, visit),
        onBegin: begin,
      },
    );
    // The library now has its own copy.
    this.#begun.length = 0;
    this.#early.length = 0;
    this.#renewLease();
  }

  /** Renews the lease after a request of its trainer; a lapsed producer resumes. */
  async renew(): Promise<void> {
    if (this.status.state === "lapsed") await this.steer("continue");
    else this.#renewLease();
  }

  async steer(action: SteerAction): Promise<void> {
    const { state } = this.status;
    if (state === "ended" || (state === "failed" && action !== "cancel")) return;
    if (state !== "failed" && nextState(state, action) === state) return this.#renewLease();
    if (this.#shared.pool.isClosing) throwClosing();
    await this.#shared.parts.requests.append({ type: "steer", producerId: this.producerId, action });
    this.#apply(action);
  }

  /**
   * Reports new weights of the trainer. With the name of a training the report comes from its own
   * trainer and renews the lease; without one it may come from another, and a lapsed producer
   * receives it only when its trainer is back.
   */
  report(version: string): void {
    // The next process reads the version from the log.
    if (this.#shared.pool.isClosing) return;
    if (this.request.training !== null) {
      if (this.#hasLapsed) this.#apply("continue");
      else this.#renewLease();
    }
    if (this.#hasLapsed) this.#missed.push(version);
    else this.#deliver(version);
  }

  /**
   * Hands over a batch. Throws a `ServiceError` for a number that is not next, and the failure of a
   * producer that failed.
   */
  async batch(number: number, wish: BatchRequest): Promise<BatchOutcome> {
    const { production, batchGroups } = this.request;
    const most = (production.maxStaleness + 1) * batchGroups;
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
          `Cannot return batch ${number}: the next one is batch ${next}; request that one, or an earlier one again.`,
        );
      }
      if (this.#shared.pool.isClosing) throwClosing();
      this.#take ??= this.#begin(number, count);
      const outcome = await this.#wait(this.#take, wish)
        .catch((error: unknown) => this.#refuse(error))
        .finally(() => this.#renewLease());
      if (outcome === "ended") return { status: "ended", groups: [] };
      if (outcome === "abandoned") return { status: "waiting", groups: [] };
    }
  }

  /**
   * Freezes a producer when the service closes: waiting requests are rejected, and the lease does
   * not run out.
   */
  freeze(): void {
    this.#lease?.stop();
    this.#lease = null;
    this.#take?.abandon.abort(closing);
  }

  #apply(action: SteerAction | "lapse"): void {
    if (this.#shared.pool.isClosing) return;
    const producer = this.#producer;
    const next = producer === null ? nextState(this.#hasLapsed ? "lapsed" : this.#earlierState, action) : null;
    this.#hasLapsed = next === "lapsed";
    if (!this.#hasLapsed) for (const version of this.#missed.splice(0)) this.#deliver(version);
    if (next !== null) this.#earlierState = next === "lapsed" ? "paused" : next;
    if (action === "pause") producer?.pause();
    if (action === "continue") producer?.continue();
    if (action === "drain") void producer?.drain();
    if (action === "cancel") void producer?.cancel().then(() => this.#groups.abandon());
    this.#renewLease();
  }

  #deliver(version: string): void {
    this.#weightVersion = version;
    if (this.#producer === null) this.#early.push(version);
    else this.#producer.reportWeightVersion(version);
  }

  /** Renews the lease. No effect on a lapsed producer. */
  #renewLease(): void {
    this.#lease?.stop();
    this.#lease = null;
    if (this.#shared.pool.isClosing || this.#producer?.status.state !== "running") return;
    const { clock } = this.#shared;
    const { leaseMs } = this.request;
    this.#lease = { endsAt: clock.now() + leaseMs, stop: clock.after(leaseMs, () => this.#lapse()) };
  }

  /**
   * Pauses the producer after its lease ran out. If this cannot be logged, the next process begins
   * with a new lease.
   */
  #lapse(): void {
    // A waiting request for a batch renews the lease.
    if ((this.#take?.waiting ?? 0) > 0) return this.#renewLease();
    this.#lease = null;
    if (this.#shared.pool.isClosing || this.#producer?.status.state !== "running") return;
    this.#hasLapsed = true;
    this.#producer.pause();
    const { producerId, request } = this;
    const { requests, onNotice, onFault } = this.#shared.parts;
    requests
      .append({ type: "steer", producerId, action: "lapse" }, { waits: true })
      .catch((error: unknown) => onFault?.(error));
    const whose = request.training === null ? "" : ` of training "${request.training}"`;
    onNotice?.(
      `Producer "${producerId}"${whose} begins nothing more: no request of its trainer came for ${request.leaseMs / 1000} s; ` +
        "it resumes when its trainer takes a batch, reports weights or sends a heartbeat.",
    );
  }

  #begin(number: number, count: number): Take {
    const abandon = new AbortController();
    const onTaken = async (groups: readonly TakenGroup[]): Promise<void> => {
      const batch = { groups, isLast: groups.length < count };
      // The batch is on disk before it is sent: from then on it always consists of these groups.
      await this.#shared.parts.requests.append(
        { type: "batch", producerId: this.producerId, number, ...batch },
        { waits: true },
      );
      this.#batches.push(batch);
    };
    const settled = this.#started
      .take(count, { signal: abandon.signal, onHandedOver: onTaken })
      .then(({ length }) => (length > 0 ? ("taken" as const) : ("ended" as const)))
      .catch((error: unknown) => {
        if (error === timeUp) return "abandoned" as const;
        throw error;
      })
      .finally(() => (this.#take = null));
    // Requests that wait report the error; there may be none.
    this.#shared.pool.track(settled).catch(() => undefined);
    return { abandon, waiting: 0, settled };
  }

  /** Waits for a batch; "abandoned" if the time limit of the request has passed. */
  async #wait(take: Take, { waitMs, signal }: BatchRequest): Promise<"taken" | "ended" | "abandoned"> {
    take.waiting++;
    try {
      if (waitMs > 0) return await withDeadline(() => take.settled, { timeoutMs: waitMs, signal });
    } catch (error) {
      if (!(error instanceof DeadlineError || signal.aborted)) throw error;
    } finally {
      take.waiting--;
    }
    if (take.waiting > 0) return "abandoned";
    // A batch that is being handed over is awaited: only the disk can delay it.
    take.abandon.abort(timeUp);
    return take.settled;
  }

  #refuse(error: unknown): never {
    if (error === closing) throwClosing();
    if (this.#state !== "failed") throw error;
    const fault = (error instanceof Error ? error.message : String(error)).replace(/\.$/, "");
    throw new ServiceError(
      "producer-failed",
      `Cannot return a batch: producer "${this.producerId}" failed: ${fault}. Start the service again to resume.`,
    );
  }
}

const timeUp = new Error("No request waits for the batch any more.");
const closing = new Error("The service is closing.");

/** State after an action, following the same rules as the library. */
function nextState<T extends State>(
  state: T,
  action: SteerAction | "lapse",
): T | EarlierProduction["state"] | "lapsed" {
  if (state === "cancelled" || action === "cancel") return "cancelled";
  if (state === "draining" || action === "drain") return "draining";
  if (action === "lapse") return state === "running" ? "lapsed" : state;
  return action === "pause" ? "paused" : "running";
}

/** Plan of a request. Throws a `ServiceError` for a split or tasks that do not exist. */
function planOf(request: ProducerRequest, producerId: string, options: TaskOptions): ProducerPlan {
  const { split, tasks, passes, curriculum, groupSize, batchGroups } = request;
  const taskset = findTaskset(split, tasks ?? [], options);
  const taskIndexes = tasks ?? Array.from({ length: taskset.size }, (_, index) => index);
  const seed = request.seed ?? deriveSeed(options.seed, producerId);
  const inOrder = tasksInOrder(taskIndexes, { passes });
  if (!curriculum) return { taskset, tasks: inOrder, groupSize, seed, batchGroups };
  const drawn = createCurriculum({ taskIndexes, seed });
  // The curriculum yields the same number of groups as the tasks in order.
  const next = (groupIndex: number) => (inOrder.next(groupIndex) === null ? null : drawn.next(groupIndex));
  return { taskset, tasks: { ...drawn, next }, groupSize, seed, batchGroups };
}
