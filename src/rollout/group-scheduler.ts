// Who runs next: opens groups, starts their episodes while there is room, and says when an episode and when a group has
// ended. It decides nothing about groups (`run-rollout.ts` and `rollout-producer.ts` do) and waits for no clock but a cutoff.
//
//   group:    opened ─► under way ─► last episode ended ─► handed on
//                          └─ cut off, surplus: running episodes are cancelled, the rest is not started
//   episode:  started ─► ended, and its place is free once its owner has it
//
// Nobody starves: a free place goes to the oldest open group that has something to start, and a new group is opened only when
// none has.

import type { EpisodeEvent } from "../core/index.ts";
import type { Clock } from "../lib/clock.ts";
import type { RunEpisode, FinishedEpisode } from "./episode-player.ts";
import { type EndedGroup, episodeKey, type GroupMember, type PlannedGroup } from "./groups/planned-group.ts";

export type SchedulerParts = {
  readonly runEpisode: RunEpisode;
  readonly seed: number;
  readonly groupSize: number;
  /** Episodes that a group may start in place of ungraded ones. */
  readonly replacements: number;
  /** A group is cut off so long after the last of its episodes began; `null`: never. */
  readonly cutoffMs: number | null;
  readonly clock: Clock;
  /** How many episodes may be under way now. */
  readonly limit: () => number;
  /** The next group; `null`: none at the moment. Asked again whenever something has ended, and on `pump`. */
  readonly nextGroup: () => PlannedGroup | null;
  /** The places of a group that are to be played; default: all of them. For groups of which an earlier run played some. */
  readonly placesOf?: (plan: PlannedGroup) => readonly number[] | null;
  readonly onStart: (plan: PlannedGroup) => void;
  readonly onEvent: (event: EpisodeEvent, plan: PlannedGroup) => void;
  /** Told of what earlier processes recorded of an episode. */
  readonly onRecorded: (event: EpisodeEvent, plan: PlannedGroup) => void;
  /** The place of the episode is taken until it resolves. */
  readonly onEpisode: (played: FinishedEpisode, plan: PlannedGroup) => Promise<void>;
  readonly onGroup: (group: EndedGroup) => Promise<void>;
  /** Nothing is under way, and nothing can be started. */
  readonly onIdle: () => void;
  /** What `play`, `onEpisode`, `onGroup` or `nextGroup` threw. Everything is cancelled next. */
  readonly onFault: (error: unknown) => void;
};

type OpenGroup = {
  readonly plan: PlannedGroup;
  /** Places that are still to be started, first come first. */
  readonly waiting: number[];
  nextReplacement: number;
  replacementsLeft: number;
  readonly running: Set<AbortController>;
  readonly members: GroupMember[];
  ending: EndedGroup["ending"];
  cancelCutoff: (() => void) | null;
};

export class GroupScheduler {
  readonly #parts: SchedulerParts;
  /** The oldest first. */
  readonly #open: OpenGroup[] = [];
  #running = 0;
  /** Episodes under way, and groups that are handed on without one. */
  #busy = 0;
  #startsEpisodes = true;
  #isCancelled = false;
  #isPumping = false;

  constructor(parts: SchedulerParts) {
    this.#parts = parts;
  }

  /** Episodes under way. */
  get running(): number {
    return this.#running;
  }

  /** Groups under way. */
  get openGroups(): number {
    return this.#open.length;
  }

  get isCancelled(): boolean {
    return this.#isCancelled;
  }

  /** Starts what may be started. To be called when limits, groups or states have changed; often is fine. */
  pump(): void {
    // What is called from here may end up here again.
    if (this.#isPumping) return;
    this.#isPumping = true;
    try {
      while (this.#startsEpisodes && this.#running < this.#parts.limit()) {
        const group = this.#open.find(({ waiting }) => waiting.length > 0) ?? this.#openNext();
        if (group === null) break;
        this.#start(group, group.waiting.shift()!);
      }
    } catch (error) {
      this.#fail(error);
    } finally {
      this.#isPumping = false;
    }
    if (this.#busy === 0) this.#parts.onIdle();
  }

  /** No further episode is started until `continue`; running ones end in their own time. */
  pause(): void {
    this.#startsEpisodes = false;
  }

  continue(): void {
    if (this.#isCancelled) return;
    this.#startsEpisodes = true;
    this.pump();
  }

  /** Cancels everything that runs, for good. Groups that are open are not handed on. */
  cancel(): void {
    this.#isCancelled = true;
    this.#startsEpisodes = false;
    for (const group of this.#open) {
      for (const controller of group.running) controller.abort(new Error("The run was cancelled."));
    }
    if (this.#busy === 0) this.#parts.onIdle();
  }

  /** Leaves no timer behind. For owners who stop with groups open. */
  close(): void {
    for (const group of this.#open) group.cancelCutoff?.();
  }

  /** Ends groups early; what they have is handed on. Groups that are not open are left alone. */
  end(which: (plan: PlannedGroup) => boolean, ending: Exclude<EndedGroup["ending"], "whole">): void {
    for (const group of this.#open.filter(({ plan }) => which(plan))) this.#end(group, ending);
  }

  #end(group: OpenGroup, ending: Exclude<EndedGroup["ending"], "whole">): void {
    if (group.ending === "whole") group.ending = ending;
    group.waiting.length = 0;
    group.replacementsLeft = 0;
    group.cancelCutoff?.();
    for (const controller of group.running) controller.abort(new Error(`The group was ended early: ${ending}.`));
    // With none of its episodes under way nobody else would notice.
    if (group.running.size === 0) void this.#settle(group, async () => undefined);
  }

  #openNext(): OpenGroup | null {
    const { nextGroup, placesOf, groupSize, replacements } = this.#parts;
    const plan = nextGroup();
    if (plan === null) return null;
    const places = placesOf?.(plan) ?? null;
    const group: OpenGroup = {
      plan,
      waiting: [...(places ?? Array.from({ length: groupSize }, (_, place) => place))],
      nextReplacement: groupSize,
      replacementsLeft: places === null ? replacements : 0,
      running: new Set(),
      members: [],
      ending: "whole",
      cancelCutoff: null,
    };
    this.#open.push(group);
    return group;
  }

  #start(group: OpenGroup, sampleIndex: number): void {
    const { onStart, cutoffMs, clock } = this.#parts;
    onStart(group.plan);
    // Until all have begun, it is not they who are slow.
    if (cutoffMs !== null && group.waiting.length === 0) {
      group.cancelCutoff ??= clock.after(cutoffMs, () => this.#end(group, "cut-off"));
    }
    const controller = new AbortController();
    group.running.add(controller);
    this.#running++;
    const played = this.#play(group, sampleIndex, controller.signal).finally(() => {
      group.running.delete(controller);
      this.#running--;
    });
    void this.#settle(group, () => played);
  }

  async #play(group: OpenGroup, sampleIndex: number, signal: AbortSignal): Promise<void> {
    const { runEpisode, onEvent, onRecorded, onEpisode, seed } = this.#parts;
    const { plan } = group;
    const played = await runEpisode(plan.task, {
      ...episodeKey(plan, sampleIndex, seed),
      signal,
      onEvent: (event) => onEvent(event, plan),
      onRecorded: (event) => onRecorded(event, plan),
    });
    await onEpisode(played, plan);
    group.members.push({ sampleIndex, played });
    if (played.episode.reward === null && group.replacementsLeft > 0) {
      group.replacementsLeft--;
      group.waiting.push(group.nextReplacement++);
    }
  }

  /** Hands the group on when `action` was its last, and makes room for others. Never rejects. */
  async #settle(group: OpenGroup, action: () => Promise<void>): Promise<void> {
    this.#busy++;
    try {
      await action();
      if (group.running.size === 0 && group.waiting.length === 0 && !this.#isCancelled) await this.#handOn(group);
    } catch (error) {
      this.#fail(error);
    } finally {
      this.#busy--;
    }
    this.pump();
  }

  async #handOn(group: OpenGroup): Promise<void> {
    const place = this.#open.indexOf(group);
    // Two episodes may end at the same moment; the first of them hands on.
    if (place === -1) return;
    this.#open.splice(place, 1);
    group.cancelCutoff?.();
    const members = group.members.toSorted((left, right) => left.sampleIndex - right.sampleIndex);
    await this.#parts.onGroup({ plan: group.plan, members, ending: group.ending });
  }

  #fail(error: unknown): void {
    this.#parts.onFault(error);
    this.cancel();
  }
}
