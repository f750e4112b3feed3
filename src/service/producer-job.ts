// One producer as its trainer sees it: numbered batches, each handed over once and given again whenever it is asked for again;
// pauses and ends. How groups come about is the library's (`runs/producer`).

import { DeadlineError, withDeadline } from "../lib/deadline.ts";
import {
  createRolloutProducer,
  type EarlierProduction,
  type RunEpisode,
  type ProducerPlan,
  type ProducerState,
  type ProducerStatus,
  type RolloutProducer,
  type TakenGroup,
} from "../rollout/index.ts";
import { refuseClosing } from "./asked.ts";
import { ProducerGroups, type ProducerWorld } from "./producer-groups.ts";
import { groupIdOf, optionsOf, planOf, type ProducerRequest } from "./producer-request.ts";
import type { SteerAction } from "./request-log.ts";
import { ServiceRefusal } from "./service-refusal.ts";

export type Batch = {
  readonly groups: readonly TakenGroup[];
  /** The producer had no more. */
  readonly isLast: boolean;
};

/** What earlier processes left of it. */
export type ProducerPast = EarlierProduction & {
  /** Numbers of its groups in the service, by id. */
  readonly numbers: ReadonlyMap<string, number>;
  readonly batches: readonly Batch[];
  /** Its trainer was not heard, so it is paused. */
  readonly hasLapsed: boolean;
  /** Reported since it lapsed, perhaps by another trainer. */
  readonly missed: readonly string[];
};

/** "lapsed": its trainer was not heard for as long as its lease is. */
export type ProducerJobStatus = Omit<ProducerStatus, "state"> & { readonly state: ProducerState | "lapsed" };

export type BatchWish = {
  /** `null`: as many as the trainer takes for one version. */
  readonly groups: number | null;
  readonly waitMs: number;
  /** Aborted when the client leaves. */
  readonly signal: AbortSignal;
};

export type BatchOutcome = { readonly status: "ready" | "waiting" | "ended"; readonly groups: readonly TakenGroup[] };

/** Somebody waits for the next batch; others who want it wait with him. */
type Take = {
  readonly number: number;
  readonly settled: Promise<"taken" | "ended" | "given-up">;
  readonly giveUp: AbortController;
  waiting: number;
};

export type ProducerOrder = {
  readonly producerId: string;
  readonly bodyHash: string;
  readonly request: ProducerRequest;
  readonly player: RunEpisode;
  /** Episodes that it may have under way. */
  readonly concurrency: number;
  /** What the engine has at the beginning. */
  readonly weightVersion: string | null;
};

export class ProducerJob {
  readonly producerId: string;
  readonly bodyHash: string;
  readonly request: ProducerRequest;
  readonly #world: ProducerWorld & { readonly onLapse: (job: ProducerJob) => void };
  readonly #order: ProducerOrder;
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
  /** Runs while it plays: when the lease ends, and how not to be told. */
  #lease: { readonly endsAt: number; readonly stop: () => void } | null = null;

  /** Throws a `ServiceRefusal` for tasks that there are not. */
  constructor(order: ProducerOrder, world: ProducerWorld & { readonly onLapse: (job: ProducerJob) => void }) {
    const { producerId, bodyHash, request, player } = order;
    this.producerId = producerId;
    this.bodyHash = bodyHash;
    this.request = request;
    this.#world = world;
    this.#order = order;
    this.#plan = planOf(request, producerId, world.parts);
    this.#weightVersion = order.weightVersion;
    const state = (): ProducerState => this.#producer?.status.state ?? "running";
    this.#groups = new ProducerGroups(world, { producerId, request, player, state });
  }

  get split(): string {
    return this.#plan.taskset.split;
  }

  get status(): ProducerJobStatus {
    const { status } = this.#started;
    return this.#hasLapsed && status.state === "paused" ? { ...status, state: "lapsed" } : status;
  }

  /** Until it lapses; `null`: nothing lapses. */
  get leaseLeftMs(): number | null {
    return this.#lease === null || this.status.state !== "running"
      ? null
      : Math.max(0, this.#lease.endsAt - this.#world.clock.now());
  }

  get weightVersion(): string | null {
    return this.#weightVersion;
  }

  /** Batches that were handed over. */
  get batches(): number {
    return this.#batches.length;
  }

  /** Something may still come of it in this process. */
  get isLive(): boolean {
    const state = this.#producer?.status.state ?? "running";
    return !this.#hasLapsed && (state === "running" || state === "paused" || state === "draining");
  }

  /** Begins, or goes on. */
  start(past: ProducerPast): void {
    const { request, concurrency, weightVersion } = this.#order;
    const earlier = { ...past, versions: [...past.versions, ...this.#early] };
    this.#weightVersion = earlier.versions.at(-1) ?? weightVersion;
    this.#batches = [...past.batches];
    for (const { groupId } of past.begun) {
      const isOver = past.state === "cancelled" || past.decided.has(groupId);
      this.#groups.again({ groupId, groupIndex: past.numbers.get(groupId) ?? 0 }, { isOver });
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
    this.#hasLapsed = past.hasLapsed;
    this.#missed = [...past.missed];
    this.renew();
  }

  /** Its trainer was heard: the lease begins anew. One that lapsed needs a "continue" first. */
  renew(): void {
    this.#lease?.stop();
    this.#lease = null;
    if (this.#isFrozen || this.#producer?.status.state !== "running") return;
    const { clock } = this.#world;
    const { leaseMs } = this.request;
    this.#lease = { endsAt: clock.now() + leaseMs, stop: clock.after(leaseMs, () => this.#lapse()) };
  }

  #lapse(): void {
    // Whoever waits for a batch is heard.
    if ((this.#take?.waiting ?? 0) > 0) return this.renew();
    this.#lease = null;
    if (this.#isFrozen || this.#producer?.status.state !== "running") return;
    this.#hasLapsed = true;
    this.#producer.pause();
    this.#world.onLapse(this);
  }

  /**
   * The trainer has new weights. A name of its own says that it is its own trainer, who is heard by it; without one it may be
   * another, and one that has lapsed is told only when its trainer is back.
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

  /** Throws a `ServiceRefusal` for a number that is not next, and with the fault of a producer that failed. */
  async batch(number: number, wish: BatchWish): Promise<BatchOutcome> {
    const { maxStaleness, batchGroups } = this.request;
    const most = (maxStaleness + 1) * batchGroups;
    const count = wish.groups ?? batchGroups;
    if (count > most) {
      throw new ServiceRefusal(
        "bad-request",
        `Cannot read the request: field "groups": it is ${count}, and at most ${most} may ever wait, (max_staleness + 1) * batch_groups.`,
      );
    }
    for (;;) {
      const known = this.#batches[number];
      if (known !== undefined) return { status: known.isLast ? "ended" : "ready", groups: known.groups };
      const next = this.#batches.length;
      if (number > next) {
        throw new ServiceRefusal(
          "batch-out-of-order",
          `Cannot hand over batch ${number}: the next one is batch ${next}; ask for that one, or for an earlier one again.`,
        );
      }
      if (this.#isFrozen) refuseClosing();
      this.#take ??= this.#begin(number, count);
      const outcome = await this.#wait(this.#take, wish).finally(() => this.renew());
      if (outcome === "ended") return { status: "ended", groups: [] };
      if (outcome === "time-up") return { status: "waiting", groups: [] };
    }
  }

  /** Whoever waits is told; nothing is handed over or decided any more. */
  freeze(): void {
    this.#isFrozen = true;
    this.renew();
    this.#groups.freeze();
    this.#take?.giveUp.abort(closing);
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
    const giveUp = new AbortController();
    const onTaken = (groups: readonly TakenGroup[]): Promise<void> =>
      this.#handOver(number, { groups, isLast: groups.length < count });
    const settled = this.#started.take(count, { signal: giveUp.signal, onTaken }).then(
      ({ length }) => (length > 0 ? ("taken" as const) : ("ended" as const)),
      (error: unknown) => {
        if (error === timeUp) return "given-up" as const;
        throw error;
      },
    );
    const take = { number, giveUp, waiting: 0, settled: settled.finally(() => (this.#take = null)) };
    // Told to those who wait; there may be none.
    take.settled.catch(() => undefined);
    return take;
  }

  /** On disk before anybody has it: from then on this batch is these groups, whatever happens. */
  async #handOver(number: number, batch: Batch): Promise<void> {
    await this.#world.parts.requests.append({ type: "batch", producerId: this.producerId, number, ...batch });
    this.#batches.push(batch);
  }

  async #wait(take: Take, { waitMs, signal }: BatchWish): Promise<"taken" | "ended" | "given-up" | "time-up"> {
    take.waiting++;
    try {
      if (waitMs > 0) return await withDeadline(() => take.settled, { timeoutMs: waitMs, signal });
    } catch (error) {
      if (!(error instanceof DeadlineError || signal.aborted)) throw this.#refusal(error);
    } finally {
      take.waiting--;
    }
    if (take.waiting > 0) return "time-up";
    // What is handed over at this very moment is waited for: only the disk is slow then.
    take.giveUp.abort(timeUp);
    const outcome = await take.settled.catch((error: unknown) => {
      throw this.#refusal(error);
    });
    return outcome === "given-up" ? "time-up" : outcome;
  }

  #refusal(error: unknown): unknown {
    if (error === closing) refuseClosing();
    if (this.status.state !== "failed") return error;
    const fault = (error instanceof Error ? error.message : String(error)).replace(/\.$/, "");
    return new ServiceRefusal(
      "producer-failed",
      `Cannot hand over a batch: producer "${this.producerId}" failed: ${fault}. Start the service again to go on.`,
    );
  }
}

const timeUp = new Error("Nobody waits for the batch any more.");
const closing = new Error("The service is closing.");
