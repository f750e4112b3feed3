// An endless supply of groups, for a trainer that trains while they run: it takes batches and
// reports new weights; in between, as many groups are in flight as staleness and buffer allow. Not
// a run that ends (`run-rollout.ts`): a group is decided when it is taken, or dropped.
//
//   running ◄──pause, continue──► paused
//      │ drain, or no more tasks    │ drain
//      ▼                            ▼
//   draining ──what is open has ended──► ended        any of them ──cancel──► cancelled, ──fault──► failed

import type { EpisodeEvent, GroupRecord } from "../../core/index.ts";
import { systemClock } from "../../lib/clock.ts";
import { requireWhole, requireWholeOrInfinite } from "../../lib/limits.ts";
import { GroupScheduler } from "../group-scheduler.ts";
import {
  type FinishedGroup,
  type GroupPolicy,
  minGradedToTrain,
  type PlannedGroup,
  reasonToDrop,
  resolveGroupPolicy,
  rewardsOf,
} from "../groups.ts";
import { FailedOpenings } from "../failed-openings.ts";
import { GroupBuffer } from "./group-buffer.ts";
import { GroupOrder } from "./group-order.ts";
import {
  type ProducedGroup,
  type ProducerOptions,
  type ProducerParts,
  type ProducerPlan,
  type ProducerState,
  type ProducerStatus,
  type TakeOptions,
} from "./producer-options.ts";
import { groupCapacity, WeightHistory } from "./staleness.ts";

/**
 * Starts at once. Throws a `RangeError` for numbers out of bounds.
 *
 * @example
 * const tasks = tasksInOrder(indexes, { passes: Infinity });
 * const producer = createRolloutProducer({ taskset, tasks, groupSize: 8, seed: 0, batchGroups: 16 }, { runEpisode });
 * for (let version = 1; version <= 100; version++) {
 *   await train(await producer.take(16));
 *   producer.reportWeightVersion(String(version));
 * }
 * await producer.cancel();
 */
export function createRolloutProducer(
  plan: ProducerPlan,
  parts: ProducerParts,
  options: ProducerOptions = {},
): RolloutProducer {
  return new RolloutProducer(plan, parts, options);
}

/** Runs groups until it is drained or cancelled. */
export class RolloutProducer {
  readonly #plan: ProducerPlan;
  readonly #options: ProducerOptions;
  readonly #policy: GroupPolicy;
  readonly #maxStaleness: number;
  readonly #opensEpisodes: boolean;
  readonly #bufferGroups: number;
  readonly #history: WeightHistory;
  readonly #scheduler: GroupScheduler;
  readonly #buffer: GroupBuffer;
  readonly #order: GroupOrder;
  readonly #dropped = new Map<string, number>();
  #state: ProducerState;
  /** Number of groups that became too old and are requeued once their records are written. */
  #requeuing = 0;
  #filtering = 0;
  /** Pending records of groups that became too old while they waited. */
  #pending: Promise<unknown> = Promise.resolve();
  readonly #ended: Promise<void>;
  #resolveEnded: () => void = () => undefined;

  constructor(plan: ProducerPlan, parts: ProducerParts, options: ProducerOptions) {
    const { clock = systemClock, concurrency = 64, maxStaleness = 1, weightVersion = null } = options;
    this.#plan = plan;
    this.#options = options;
    this.#policy = resolveGroupPolicy(
      { minGraded: minGradedToTrain(plan.groupSize), ...options.groups },
      plan.groupSize,
    );
    this.#maxStaleness = maxStaleness;
    const batches = maxStaleness === Infinity ? 2 : Math.max(2, maxStaleness + 1);
    this.#bufferGroups = options.bufferGroups ?? batches * plan.batchGroups;
    requireWhole("produce groups", "groupSize", plan.groupSize);
    requireWhole("produce groups", "batchGroups", plan.batchGroups);
    requireWholeOrInfinite("produce groups", "maxStaleness", maxStaleness, 0);
    requireWholeOrInfinite("produce groups", "bufferGroups", this.#bufferGroups);
    const { earlier = null, opensEpisodes = true } = parts;
    this.#opensEpisodes = opensEpisodes;
    this.#state = earlier?.state ?? "running";
    this.#history = new WeightHistory(weightVersion);
    for (const version of earlier?.versions ?? []) this.#history.report(version);
    let taken = 0;
    for (const { reason } of earlier?.decided.values() ?? []) {
      if (reason === null) taken++;
      else this.#dropped.set(reason, (this.#dropped.get(reason) ?? 0) + 1);
    }
    this.#buffer = new GroupBuffer({ taken, stalenessOf: (group) => this.#order.staleness(group.plan) });
    const { nameGroup, stale } = options;
    this.#order = new GroupOrder(plan, { earlier, history: this.#history, nameGroup, requeues: stale === "requeue" });
    this.#ended = new Promise((resolve) => {
      this.#resolveEnded = resolve;
    });
    const { runEpisode, store, exportSamples, rank } = parts;
    const openings = new FailedOpenings("produce groups");
    this.#scheduler = new GroupScheduler({
      runEpisode,
      seed: plan.seed,
      groupSize: plan.groupSize,
      policy: this.#policy,
      concurrency,
      // Episodes that an earlier process began were within the bound then; most of them have
      // finished and are only read back.
      isUnbounded: () => this.#order.isReopening,
      store,
      exportSamples,
      rank,
      clock,
      nextGroup: () => this.#nextGroup(),
      onEvent: (event, group) => {
        this.#options.onEvent?.(event);
        this.#seeAge(event, group);
      },
      onRecorded: (event, group) => this.#seeAge(event, group),
      onEpisode: ({ summary }) => openings.see(summary, this.#scheduler.concurrency),
      onGroup: (group) => this.#onGroup(group),
      onIdle: () => this.#onIdle(),
      onFault: (error) => this.#fail(error),
    });
    if (this.#state === "cancelled") void this.cancel();
    else this.#scheduler.start();
  }

  get status(): ProducerStatus {
    return {
      state: this.#state,
      version: this.#history.current,
      runningEpisodes: this.#scheduler.running,
      openGroups: this.#scheduler.openGroups,
      buffered: this.#buffer.size,
      handedOver: this.#buffer.taken,
      dropped: Object.fromEntries(this.#dropped),
      concurrency: this.#scheduler.concurrency,
    };
  }

  /**
   * Takes the next groups, the ones begun first before others. Waits until `count` are there;
   * resolves with fewer, or none, once the producer has ended or was cancelled. Rejects with the
   * fault that stopped the producer, with the reason of `signal`, and with a `RangeError` for more
   * groups than can ever wait at once within the staleness bound.
   */
  async take(count: number, options: TakeOptions = {}): Promise<readonly ProducedGroup[]> {
    const most = (this.#maxStaleness + 1) * this.#plan.batchGroups;
    if (!Number.isInteger(count) || count < 1 || count > most) {
      throw new RangeError(
        `Cannot take ${count} groups: expected a whole number from 1 to ${most}, (maxStaleness + 1) * batchGroups.`,
      );
    }
    const taken = this.#buffer.take(count, options.signal);
    this.#scheduler.pump();
    const handed = await taken;
    try {
      if (handed.length > 0) {
        await options.onHandedOver?.(
          handed.map(({ group, staleness }) => ({ groupId: group.plan.groupId, staleness })),
        );
      }
      const records = await Promise.all(handed.map(({ group }) => this.#decide(group, null)));
      return await Promise.all(
        handed.map(async ({ group, staleness }, place) => {
          const members = this.#opensEpisodes ? group.members : [];
          const episodes = await Promise.all(members.map(({ ended }) => ended.open()));
          return { record: records[place]!, episodes, staleness };
        }),
      );
    } catch (error) {
      this.#fail(error);
      throw error;
    }
  }

  /**
   * Reports that the trainer has new weights, which the engine has or is about to load. Groups that
   * are now too old are dropped.
   */
  reportWeightVersion(version: string): void {
    this.#history.report(version);
    const stale = this.#buffer.remove(({ plan }) => this.#isStale(plan));
    for (const group of stale) {
      const dropped = this.#dropStale(group).catch((error: unknown) => this.#fail(error));
      this.#pending = Promise.all([this.#pending, dropped]);
    }
    this.#scheduler.end((plan) => this.#isStale(plan), "stale");
    this.#scheduler.pump();
  }

  /**
   * Stops starting episodes; those in flight continue. The program that changes the weights pauses
   * the server itself.
   */
  pause(): void {
    if (this.#state !== "running") return;
    this.#state = "paused";
    this.#scheduler.pause();
  }

  continue(): void {
    if (this.#state !== "paused") return;
    this.#state = "running";
    this.#scheduler.continue();
  }

  /**
   * Begins no further group and runs the open ones to their end, also when paused. Resolves when
   * they have ended, or when the producer was cancelled or failed; waiting groups can still be
   * taken.
   */
  drain(): Promise<void> {
    if (this.#state === "running" || this.#state === "paused") {
      this.#state = "draining";
      this.#scheduler.continue();
    }
    return this.#ended;
  }

  /**
   * Cancels all running episodes. Nothing more is handed over, and waiting groups stay undecided.
   * Resolves when nothing runs any more.
   */
  cancel(): Promise<void> {
    if (this.#state !== "ended" && this.#state !== "failed") {
      this.#state = "cancelled";
      this.#buffer.remove(() => true);
      this.#buffer.close();
      this.#scheduler.cancel();
    }
    return this.#ended;
  }

  #nextGroup(): PlannedGroup | null {
    while (this.#mayBegin()) {
      const next = this.#order.next();
      if (next === "decided") continue;
      if (next === null) this.#state = "draining";
      if (next === null || next === "later") return null;
      if (next.begins !== null) this.#options.onBegin?.(next.begins);
      return next.plan;
    }
    // Only groups that were open when an earlier process paused continue.
    if (this.#state === "paused") this.#scheduler.pause();
    return null;
  }

  #mayBegin(): boolean {
    if (this.#order.isReopening) return true;
    return this.#state === "running" && this.#requeuing === 0 && this.#hasRoom();
  }

  /** True if buffer and staleness allow one more group. Waiting takers extend the buffer. */
  #hasRoom(): boolean {
    const { size: waiting, taken, requested } = this.#buffer;
    const running = this.#scheduler.openGroups + this.#filtering;
    if (waiting + running >= Math.max(this.#bufferGroups, requested)) return false;
    const { batchGroups } = this.#plan;
    const maxStaleness = this.#maxStaleness;
    const accepted = taken + waiting;
    return groupCapacity({ maxStaleness, version: this.#history.current, batchGroups, accepted, running }) > 0;
  }

  /** Records the weights of a turn, in whichever process it was sampled. */
  #seeAge(event: EpisodeEvent, plan: PlannedGroup): void {
    if (event.type === "turn") this.#order.see(plan, event.turn.weightSpans);
  }

  async #onGroup(group: FinishedGroup): Promise<void> {
    const { plan, ending, members } = group;
    const isCancelled = ending === "stale";
    this.#order.report(plan, isCancelled ? [] : rewardsOf(group), { isCancelled });
    // Episodes that an earlier process stored, or that another process ran, emit no events here.
    for (const { ended } of members) this.#order.see(plan, ended.summary.weightSpans);
    let reason: string | null = "stale";
    // A filter may read the group's episodes; until it is done, the group counts as running.
    this.#filtering++;
    try {
      if (!this.#isStale(plan)) reason = await reasonToDrop(group, this.#policy);
    } finally {
      this.#filtering--;
    }
    if (this.#isStale(plan)) reason = "stale";
    if (reason === null) this.#buffer.put(group);
    else if (reason === "stale") await this.#dropStale(group);
    else await this.#decide(group, reason);
  }

  #isStale(plan: PlannedGroup): boolean {
    return this.#order.staleness(plan) > this.#maxStaleness;
  }

  async #dropStale(group: FinishedGroup): Promise<void> {
    const requeues = this.#options.stale === "requeue";
    if (requeues) this.#requeuing++;
    // Recorded first, so that a later process finds a reason for every task that is run again.
    await this.#decide(group, "stale");
    if (!requeues) return;
    this.#order.requeue(group.plan.task.index);
    this.#requeuing--;
    this.#scheduler.pump();
  }

  /** Records a decision. `reason`: the reason for dropping the group; `null`: it is taken. */
  async #decide(group: FinishedGroup, reason: string | null): Promise<GroupRecord> {
    this.#order.forget(group.plan);
    if (reason !== null) this.#dropped.set(reason, (this.#dropped.get(reason) ?? 0) + 1);
    const record = await this.#scheduler.record(group, reason);
    this.#options.onGroup?.(record);
    return record;
  }

  #onIdle(): void {
    if (this.#state === "draining") {
      this.#state = "ended";
      this.#buffer.close();
    }
    if (this.#state === "running" || this.#state === "paused") return;
    this.#scheduler.close();
    void this.#pending.then(this.#resolveEnded);
  }

  #fail(error: unknown): void {
    // Faults after cancelling are not reported.
    if (this.#state === "failed" || this.#state === "cancelled") return;
    this.#state = "failed";
    this.#buffer.fail(error instanceof Error ? error : new Error(String(error)));
    this.#scheduler.cancel();
  }
}
