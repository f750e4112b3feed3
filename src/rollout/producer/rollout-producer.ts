// Groups without end, for a trainer that trains while they are played: it takes batches and reports new weights; in between,
// as many groups are under way as staleness and buffer allow. Not a run that ends (`run-rollout.ts`): a group is decided
// when it is taken, or dropped.
//
//   running ◄──pause, continue──► paused
//      │ drain, or no more tasks    │ drain
//      ▼                            ▼
//   draining ──what is open has ended──► ended        any of them ──cancel──► cancelled, ──fault──► failed

import type { EpisodeEvent, GroupRecord } from "../../core/index.ts";
import { systemClock } from "../../lib/clock.ts";
import { createEpisodeLimit, type EpisodeLimit } from "../concurrency/episode-limit.ts";
import type { FinishedEpisode } from "../episode-player.ts";
import { GroupScheduler } from "../group-scheduler.ts";
import { type GroupPolicy, judgeGroup, minGradedToTrain, resolveGroupPolicy } from "../groups/group-policy.ts";
import { groupRecord, viewOf } from "../groups/group-record.ts";
import type { EndedGroup, PlannedGroup } from "../groups/planned-group.ts";
import { GroupAges } from "./group-ages.ts";
import { GroupBuffer } from "./group-buffer.ts";
import { GroupOrder } from "./group-order.ts";
import type { ProducedGroup, ProducerState, ProducerStatus, TakeOptions } from "./produced-group.ts";
import { checkProducer, type ProducerOptions, type ProducerParts, type ProducerPlan } from "./producer-options.ts";
import { groupCapacity, WeightHistory } from "./staleness.ts";

/**
 * Starts playing at once. Throws a `RangeError` for numbers out of bounds.
 *
 * @example
 * const tasks = tasksInOrder(indexes, { passes: Infinity });
 * const producer = createRolloutProducer({ taskset, tasks, groupSize: 8, seed: 0, batchGroups: 16 }, { play });
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

/** Plays groups until it is drained or cancelled. */
export class RolloutProducer {
  readonly #plan: ProducerPlan;
  readonly #parts: ProducerParts;
  readonly #options: ProducerOptions;
  readonly #policy: GroupPolicy;
  readonly #maxStaleness: number;
  readonly #bufferGroups: number;
  readonly #history: WeightHistory;
  readonly #limit: EpisodeLimit;
  readonly #scheduler: GroupScheduler;
  readonly #buffer: GroupBuffer;
  readonly #order: GroupOrder;
  readonly #ages: GroupAges;
  readonly #dropped = new Map<string, number>();
  #state: ProducerState;
  /** Groups that became too old and whose tasks are played again once that is recorded. */
  #requeuing = 0;
  /** Records of groups that grew too old while they waited. */
  #pending: Promise<unknown> = Promise.resolve();
  readonly #ended: Promise<void>;
  #resolveEnded: () => void = () => undefined;

  constructor(plan: ProducerPlan, parts: ProducerParts, options: ProducerOptions) {
    const { clock = systemClock, concurrency = 64, maxStaleness = 1, weightVersion = null } = options;
    this.#plan = plan;
    this.#parts = parts;
    this.#options = options;
    this.#policy = resolveGroupPolicy(
      { minGraded: minGradedToTrain(plan.groupSize), ...options.groups },
      plan.groupSize,
    );
    this.#maxStaleness = maxStaleness;
    const batches = maxStaleness === Infinity ? 2 : Math.max(2, maxStaleness + 1);
    this.#bufferGroups = options.bufferGroups ?? batches * plan.batchGroups;
    checkProducer(plan, { maxStaleness, bufferGroups: this.#bufferGroups });
    const { earlier = null } = parts;
    this.#state = earlier?.state ?? "running";
    this.#history = new WeightHistory(weightVersion);
    for (const version of earlier?.versions ?? []) this.#history.report(version);
    this.#ages = new GroupAges(this.#history);
    let taken = 0;
    for (const { reason } of earlier?.decided.values() ?? []) {
      if (reason === null) taken++;
      else this.#dropped.set(reason, (this.#dropped.get(reason) ?? 0) + 1);
    }
    this.#buffer = new GroupBuffer({ taken, stalenessOf: (group) => this.#ages.staleness(group.plan.groupIndex) });
    const { nameGroup } = options;
    this.#order = new GroupOrder(plan, { earlier, nameGroup, requeues: options.stale === "requeue" });
    this.#limit = createEpisodeLimit(concurrency, clock);
    this.#ended = new Promise((resolve) => {
      this.#resolveEnded = resolve;
    });
    this.#scheduler = new GroupScheduler({
      runEpisode: parts.runEpisode,
      seed: plan.seed,
      groupSize: plan.groupSize,
      replacements: this.#policy.replacements,
      cutoffMs: this.#policy.cutoff?.afterMs ?? null,
      clock,
      // What an earlier process began had its places; most of it has ended and only comes back.
      limit: () => (this.#order.isReopening ? Infinity : this.#limit.current),
      nextGroup: () => this.#nextGroup(),
      onStart: () => undefined,
      onEvent: (event, group) => this.#onEvent(event, group),
      onRecorded: (event, group) => this.#onAge(event, group),
      onEpisode: (played) => this.#onEpisode(played),
      onGroup: (group) => this.#onGroup(group),
      onIdle: () => this.#onIdle(),
      onFault: (error) => this.#fail(error),
    });
    this.#limit.start({ running: () => this.#scheduler.running, onChange: () => this.#scheduler.pump() });
    if (this.#state === "cancelled") void this.cancel();
    else this.#scheduler.pump();
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
      concurrency: this.#limit.current,
    };
  }

  /**
   * The next groups, those that were begun first before others. Waits until so many are there; resolves with fewer, or none,
   * once the producer has ended or was cancelled. Rejects with the fault that stopped the producer, and with the reason of
   * `signal`; with a `RangeError` for more groups than staleness ever lets wait at once.
   */
  async take(count: number, options: TakeOptions = {}): Promise<readonly ProducedGroup[]> {
    const most = (this.#maxStaleness + 1) * this.#plan.batchGroups;
    if (!Number.isInteger(count) || count < 1 || count > most) {
      throw new RangeError(
        `Cannot take ${count} groups: a whole number from 1 to ${most} is needed, (maxStaleness + 1) * batchGroups.`,
      );
    }
    const taken = this.#buffer.take(count, options.signal);
    this.#scheduler.pump();
    const handed = await taken;
    try {
      if (handed.length > 0) {
        await options.onTaken?.(handed.map(({ group, staleness }) => ({ groupId: group.plan.groupId, staleness })));
      }
      const records = await Promise.all(handed.map(({ group }) => this.#keep(group)));
      return handed.map(({ group, staleness }, place) => ({
        record: records[place]!,
        episodes: group.members.map(({ played }) => played),
        staleness,
      }));
    } catch (error) {
      this.#fail(error);
      throw error;
    }
  }

  /** The trainer has new weights, and the engine has them or is about to. Groups that are too old now are dropped. */
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

  /** Starts no further episode; those under way go on. The server is paused by whoever changes its weights. */
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
   * Begins no further group and plays those that are open to their end, paused or not. Resolves when they have ended, or
   * when the producer was cancelled or failed; what waits then can still be taken.
   */
  drain(): Promise<void> {
    if (this.#state === "running" || this.#state === "paused") {
      this.#state = "draining";
      this.#scheduler.continue();
    }
    return this.#ended;
  }

  /** Cancels what runs. Nothing more is handed over, and what waits stays undecided. Resolves when nothing runs any more. */
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
      const next = this.#order.next(this.#history.current);
      if (next === "later") return null;
      if (next === null) {
        this.#state = "draining";
        return null;
      }
      const { plan, begunAt, record, begins } = next;
      if (record !== null) {
        this.#order.report(plan, record.rewards);
        continue;
      }
      this.#ages.begin(plan.groupIndex, begunAt);
      if (begins !== null) this.#options.onBegin?.(begins);
      return plan;
    }
    // What was open when an earlier process paused goes on, and nothing else.
    if (this.#state === "paused") this.#scheduler.pause();
    return null;
  }

  #mayBegin(): boolean {
    if (this.#order.isReopening) return true;
    return this.#state === "running" && this.#requeuing === 0 && this.#hasRoom();
  }

  /** Whether buffer and staleness allow one more group. Takers who wait are buffer enough. */
  #hasRoom(): boolean {
    const { size: waiting, taken, wanted } = this.#buffer;
    const running = this.#scheduler.openGroups;
    if (waiting + running >= Math.max(this.#bufferGroups, wanted)) return false;
    const { batchGroups } = this.#plan;
    const maxStaleness = this.#maxStaleness;
    const accepted = taken + waiting;
    return groupCapacity({ maxStaleness, version: this.#history.current, batchGroups, accepted, running }) > 0;
  }

  #onEvent(event: EpisodeEvent, group: PlannedGroup): void {
    this.#limit.observe(event);
    this.#options.onEvent?.(event);
    this.#onAge(event, group);
  }

  /** Tokens are as old as they are, whichever process sampled them. */
  #onAge(event: EpisodeEvent, { groupIndex }: PlannedGroup): void {
    if (event.type === "turn") this.#ages.see(groupIndex, event.turn.weightSpans);
  }

  async #onEpisode(played: FinishedEpisode): Promise<void> {
    const isCutOff = this.#scheduler.isCancelled && played.episode.stopReason === "cancelled";
    if (played.origin !== "stored" && !isCutOff) await this.#parts.store?.append(played.episode);
  }

  async #onGroup(group: EndedGroup): Promise<void> {
    const { plan, ending, members } = group;
    const view = viewOf(group);
    this.#order.report(plan, ending === "stale" ? [] : view.rewards);
    // Episodes that were kept from before tell no events.
    for (const { weightSpans } of members.flatMap(({ played }) => played.episode.trajectory.turns)) {
      this.#ages.see(plan.groupIndex, weightSpans);
    }
    if (ending === "stale" || this.#isStale(plan)) return this.#dropStale(group);
    const reason = judgeGroup(view, this.#policy, ending === "cut-off");
    if (reason === null) this.#buffer.put(group);
    else await this.#drop(group, reason);
  }

  #isStale({ groupIndex }: PlannedGroup): boolean {
    return this.#ages.staleness(groupIndex) > this.#maxStaleness;
  }

  async #dropStale(group: EndedGroup): Promise<void> {
    if (this.#options.stale !== "requeue") return this.#drop(group, "stale");
    this.#requeuing++;
    // Recorded first: a later process then knows of every task that is played again why it is.
    await this.#drop(group, "stale");
    this.#order.requeue(group.plan.task.index);
    this.#requeuing--;
    this.#scheduler.pump();
  }

  async #drop(group: EndedGroup, reason: string): Promise<void> {
    this.#ages.forget(group.plan.groupIndex);
    this.#dropped.set(reason, (this.#dropped.get(reason) ?? 0) + 1);
    const record = groupRecord(group, reason);
    await this.#parts.store?.appendGroup({ group: record, sampleLines: [] });
    this.#options.onGroup?.(record);
  }

  async #keep(group: EndedGroup): Promise<GroupRecord> {
    const { plan, members } = group;
    this.#ages.forget(plan.groupIndex);
    const record = groupRecord(group, null);
    const { store, exportSamples } = this.#parts;
    if (store !== undefined) {
      const stride = this.#plan.groupSize + this.#policy.replacements;
      const sampleLines = members.flatMap(({ sampleIndex, played }) => {
        const index = plan.groupIndex * stride + sampleIndex;
        return exportSamples?.(played, { index, groupIndex: plan.groupIndex, group: record }) ?? [];
      });
      await store.appendGroup({ group: record, sampleLines });
    }
    this.#options.onGroup?.(record);
    return record;
  }

  #onIdle(): void {
    if (this.#state === "draining") {
      this.#state = "ended";
      this.#buffer.close();
    }
    if (this.#state === "running" || this.#state === "paused") return;
    this.#limit.stop();
    this.#scheduler.close();
    void this.#pending.then(this.#resolveEnded);
  }

  #fail(error: unknown): void {
    // Nobody waits for what a cancelled one might still do.
    if (this.#state === "failed" || this.#state === "cancelled") return;
    this.#state = "failed";
    this.#buffer.fail(error instanceof Error ? error : new Error(String(error)));
    this.#scheduler.cancel();
  }
}
