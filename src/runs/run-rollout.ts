// Many episodes: tasks times samples, a bounded number at once, each handed to the store as it ends. Not the loop of an
// episode (`episodes/`). A group is decided when its last episode has ended: kept with its rows, or dropped when none of its
// episodes was graded. Groups that a stopped run leaves short stay undecided, so that a resumed run decides them whole.
//
//   planned ─► started ─► ended ─► in the store ─► its group decided
//      │          └─ cancel: cut off, counted as aborted, not in the store
//      └─ drain, cancel or a fault: never started

import type { Episode, EpisodeEvent, GroupRecord, Task, Taskset } from "../core/index.ts";
import { episodeSeed } from "../episodes/index.ts";
import { type Clock, systemClock } from "../lib/clock.ts";
import { createSemaphore } from "../lib/semaphore.ts";
import type { RunStore } from "../store/index.ts";
import type { EpisodePlayer, PlayedEpisode } from "./episode-player.ts";
import { type RunTotals, TotalsCounter } from "./run-totals.ts";

/** What is to be played. */
export type RolloutPlan = {
  readonly taskset: Taskset;
  /** Indexes of the tasks, in the order they are started; each at most once. */
  readonly taskIndexes: readonly number[];
  readonly samplesPerTask: number;
  /** Of the run: every other seed derives from it, the task and the sample. */
  readonly seed: number;
};

export type RolloutParts = {
  readonly play: EpisodePlayer;
  /** Begun by the caller, and closed by it. */
  readonly store: Pick<RunStore, "append" | "appendGroup">;
  /** Groups that the store holds from before, by id: their episodes are counted, nothing is decided again. Default: none. */
  readonly decided?: ReadonlyMap<string, GroupRecord>;
  /** The rows of an episode as texts; what it throws stops the run. `index` numbers the episode, `groupIndex` its task. */
  readonly exportSamples: (
    played: PlayedEpisode,
    place: { readonly index: number; readonly groupIndex: number },
  ) => readonly string[];
};

export type RolloutOptions = {
  /** Episodes at once. Default: 64. */
  readonly concurrency?: number;
  /** No further episode is started; running ones end in their own time. */
  readonly drain?: AbortSignal;
  /** No further episode is started, and running ones are cancelled: outcome "aborted". */
  readonly signal?: AbortSignal;
  /** Told of every episode that starts, of every turn and of every episode that is kept. Must be quick; `totals` may be called as often as wanted. */
  readonly onProgress?: (totals: () => RunTotals) => void;
  /** Told of each episode when it is kept. */
  readonly onEpisode?: (episode: Episode) => void;
  readonly clock?: Clock;
};

/** What has ended of a group that is not whole yet, by place in the group. */
type OpenGroup = Map<number, PlayedEpisode>;

type Place = { readonly task: Task; readonly groupIndex: number; readonly sampleIndex: number };

/**
 * Plays a plan. Resolves with the totals when every episode is kept or the run was stopped by a signal; all episodes that
 * ended are in the store then, and those that were cut off are counted as aborted. Rejects with the first fault of the store, of an export or of the configuration, after
 * running episodes are cancelled. Throws a `RangeError` for a plan or options out of bounds, before anything starts.
 */
export async function runRollout(
  plan: RolloutPlan,
  parts: RolloutParts,
  options: RolloutOptions = {},
): Promise<RunTotals> {
  checkPlan(plan);
  return new Rollout(plan, parts, options).run();
}

class Rollout {
  readonly #plan: RolloutPlan;
  readonly #parts: RolloutParts;
  readonly #options: RolloutOptions;
  readonly #counter: TotalsCounter;
  /** One controller an episode: signals of long runs would gather listeners. */
  readonly #openGroups = new Map<string, OpenGroup>();
  readonly #running = new Map<AbortController, Promise<void>>();
  readonly #stopStarting = new AbortController();
  #isCancelled = false;
  #fault: { readonly error: unknown } | null = null;

  constructor(plan: RolloutPlan, parts: RolloutParts, options: RolloutOptions) {
    this.#plan = plan;
    this.#parts = parts;
    this.#options = options;
    const clock = options.clock ?? systemClock;
    const planned = { groups: plan.taskIndexes.length, samplesPerTask: plan.samplesPerTask };
    this.#counter = new TotalsCounter(planned, () => clock.now());
  }

  async run(): Promise<RunTotals> {
    const { drain, signal, concurrency = 64 } = this.#options;
    const permits = createSemaphore(concurrency);
    const onDrain = (): void => this.#stopStarting.abort(new Error("drained"));
    const onCancel = (): void => this.#cancel();
    drain?.addEventListener("abort", onDrain, { once: true });
    signal?.addEventListener("abort", onCancel, { once: true });
    if (drain?.aborted) onDrain();
    if (signal?.aborted) onCancel();
    try {
      for (const place of places(this.#plan)) {
        const release = await permits.acquire(this.#stopStarting.signal).catch(() => null);
        if (release === null || this.#stopStarting.signal.aborted) break;
        this.#start(place, release);
      }
      await Promise.all(this.#running.values());
    } finally {
      drain?.removeEventListener("abort", onDrain);
      signal?.removeEventListener("abort", onCancel);
    }
    if (this.#fault !== null) throw this.#fault.error;
    return this.#counter.totals();
  }

  #start(place: Place, release: () => void): void {
    const controller = new AbortController();
    this.#counter.start();
    const played = this.#play(place, controller.signal)
      .catch((error: unknown) => {
        this.#fault ??= { error };
        this.#cancel();
      })
      .finally(() => {
        this.#running.delete(controller);
        release();
      });
    this.#running.set(controller, played);
    this.#report();
  }

  async #play(place: Place, signal: AbortSignal): Promise<void> {
    const { task, sampleIndex } = place;
    const onEvent = (event: EpisodeEvent): void => {
      this.#counter.event(event);
      if (event.type === "turn" || event.type === "agent-reply") this.#report();
    };
    const seed = episodeSeed(this.#plan.seed, task.id, sampleIndex);
    const episodeId = `${task.id}#${sampleIndex}`;
    const played = await this.#parts.play(task, { episodeId, groupId: task.id, sampleIndex, seed, signal, onEvent });
    // An episode that the run cut off has not ended: its events are journalled, and a resumed run goes on with it.
    const isCutOff = this.#isCancelled && played.episode.stopReason === "cancelled";
    if (played.origin !== "kept" && !isCutOff) await this.#parts.store.append(played.episode);
    this.#counter.finish(played);
    this.#options.onEpisode?.(played.episode);
    if (!isCutOff) await this.#finishInGroup(place, played);
    this.#report();
  }

  async #finishInGroup({ task, groupIndex, sampleIndex }: Place, played: PlayedEpisode): Promise<void> {
    const { groupId } = played.episode;
    const group: OpenGroup = this.#openGroups.get(groupId) ?? new Map<number, PlayedEpisode>();
    this.#openGroups.set(groupId, group.set(sampleIndex, played));
    const { samplesPerTask } = this.#plan;
    if (group.size < samplesPerTask) return;
    this.#openGroups.delete(groupId);
    const members = [...group].toSorted(([left], [right]) => left - right);
    const rewards = members.map(([, { episode }]) => episode.reward);
    const isKept = rewards.some((reward) => reward !== null);
    const record: GroupRecord = {
      groupId,
      taskId: task.id,
      groupIndex,
      decision: isKept ? "kept" : "dropped",
      reason: isKept ? null : "not-graded",
      episodeIds: members.map(([, { episode }]) => episode.id),
      rewards,
    };
    const decision = this.#parts.decided?.get(groupId) ?? record;
    this.#counter.decide(
      decision,
      members.map(([, { result }]) => result),
    );
    if (decision !== record) return;
    const sampleLines = isKept
      ? members.flatMap(([place, member]) =>
          this.#parts.exportSamples(member, { index: groupIndex * samplesPerTask + place, groupIndex }),
        )
      : [];
    await this.#parts.store.appendGroup({ group: record, sampleLines });
  }

  #report(): void {
    this.#options.onProgress?.(() => this.#counter.totals());
  }

  #cancel(): void {
    this.#isCancelled = true;
    this.#stopStarting.abort(new Error("cancelled"));
    for (const controller of this.#running.keys()) controller.abort(new Error("The run was cancelled."));
  }
}

/** Group by group, so that the episodes of a group run together and a stopped run has few groups that are not whole. */
function* places(plan: RolloutPlan): Generator<Place> {
  for (const [groupIndex, taskIndex] of plan.taskIndexes.entries()) {
    const task = plan.taskset.task(taskIndex);
    for (let sampleIndex = 0; sampleIndex < plan.samplesPerTask; sampleIndex++) yield { task, groupIndex, sampleIndex };
  }
}

function checkPlan({ taskIndexes, samplesPerTask, taskset }: RolloutPlan): void {
  if (!Number.isInteger(samplesPerTask) || samplesPerTask < 1) {
    throw new RangeError(
      `Cannot roll out: samplesPerTask is ${samplesPerTask}, a whole number of at least 1 is needed.`,
    );
  }
  const seen = new Set<number>();
  for (const index of taskIndexes) {
    if (seen.has(index)) throw new RangeError(`Cannot roll out: task ${index} is planned twice; name each task once.`);
    if (!Number.isInteger(index) || index < 0 || index >= taskset.size) {
      throw new RangeError(
        `Cannot roll out: there is no task ${index} in ${taskset.environment} (${taskset.split}); indexes go from 0 to ${taskset.size - 1}.`,
      );
    }
    seen.add(index);
  }
}
