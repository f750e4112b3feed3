// Requested episodes and groups while the service knows them. Independent of HTTP; decisions are
// made elsewhere.
//
//   waiting ─► running ─► ended
//      ├────── cancel ───────┘
//      └────── suspend: the service closes, and the next process resumes it

import { type EnvironmentSource, type Task, type Taskset, hasSplit, splitsText } from "../core/index.ts";
import { Waiters } from "../lib/deadline.ts";
import { episodeSeed } from "../rollout/index.ts";
import { type EpisodeSummary, type EventView, notEnded } from "./episode-view.ts";
import { ServiceError } from "./service-error.ts";
import type { PolicyRequest } from "./service-options.ts";

/** Group, index and task of an episode. */
export type EpisodePlace = {
  readonly episodeId: string;
  readonly groupId: string;
  readonly sampleIndex: number;
  readonly task: Task;
  readonly seed: number;
};

/** Only its methods change the fields. */
export class EpisodeJob {
  readonly place: EpisodePlace;
  status: "waiting" | "running" | "ended" = "waiting";
  summary: EpisodeSummary = notEnded;
  /** True if its episode is in the store; known once it has ended. */
  isStored = false;
  /**
   * True if the service closed before the job ended: nothing more happens to it in this process.
   */
  isSuspended = false;
  /** Events so far; `null` once they are forgotten. */
  events: EventView[] | null = [];
  readonly #controller = new AbortController();
  readonly #waiters = new Waiters();

  constructor(place: EpisodePlace) {
    this.place = place;
  }

  /** Signal that aborts when the episode must stop. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  begin(): void {
    this.status = "running";
    this.#waiters.wake();
  }

  see(event: EventView): void {
    this.events?.push(event);
    this.#waiters.wake();
  }

  end(summary: EpisodeSummary, { isStored = false }: { readonly isStored?: boolean } = {}): void {
    this.status = "ended";
    this.summary = summary;
    this.isStored = isStored;
    this.#waiters.wake();
  }

  /** Marks a job as ended in an earlier process; its events are not in memory. */
  restore(summary: EpisodeSummary, options: { readonly isStored: boolean }): void {
    this.end(summary, options);
    this.events = null;
  }

  cancel(): void {
    this.#controller.abort(new Error("The episode was cancelled."));
  }

  /** Suspends the job. No effect on one that has ended or was already cancelled. */
  suspend(): void {
    if (this.status === "ended" || this.signal.aborted) return;
    this.isSuspended = true;
    this.#controller.abort(new Error("The service is closing."));
    this.#waiters.wake();
  }

  /** Frees the memory of its events. */
  forgetEvents(): void {
    this.events = null;
  }

  /** Resolves at the next change; rejects with the signal's reason if that aborts first. */
  changed(signal: AbortSignal): Promise<void> {
    return this.#waiters.wait(signal);
  }
}

/** Episodes of one task that belong together; a single episode is a group of one. */
export type GroupRequest = {
  readonly split: string | null;
  readonly taskIndex: number;
  readonly groupSize: number;
  /** Seed; `null` to derive it from the service's seed and the group's id. */
  readonly seed: number | null;
  readonly policy: PolicyRequest;
  /**
   * Number of times that its producer has run the task, including this one; 1 for requested groups.
   */
  readonly visit: number;
  /** Number of further episodes that may replace those without a reward. */
  readonly replacements: number;
};

/** The part of a group that is the same in every process. */
export type GroupIdentity = {
  readonly groupId: string;
  /** Number of the group in the service. */
  readonly groupIndex: number;
  /** Id of the group's producer; `null` if the group was requested on its own. */
  readonly producerId: string | null;
  /** LoRA adapter of all its episodes; `null`: the engine's own. @default null */
  readonly adapter?: string | null;
};

export type GroupJob = GroupIdentity & {
  readonly request: GroupRequest;
  readonly task: Task;
  /** Jobs of the group; replacements are appended. */
  readonly jobs: EpisodeJob[];
  /** Creates the job of a further episode of the group. */
  readonly another: (sampleIndex: number) => EpisodeJob;
  /** Resolves once the group is in the request log. */
  logged: Promise<void>;
};

export type TaskOptions = {
  readonly environment: EnvironmentSource;
  readonly defaultSplit: string;
  /** Seed of the service. */
  readonly seed: number;
};

/**
 * Creates a group whose episodes wait, with their indexes and seeds: equal requests give equal
 * episodes in every process. Throws a `ServiceError` for a task that does not exist.
 */
export function openGroup(request: GroupRequest, identity: GroupIdentity, options: TaskOptions): GroupJob {
  const { groupId } = identity;
  const { split, seed, visit, taskIndex, groupSize } = request;
  const task = findTaskset(split, [taskIndex], options).task(taskIndex);
  // The seed depends on the task's id, so that equal seeds and keys never correlate different
  // tasks.
  const own = seed === null ? groupId : visit === 1 ? "" : `@${visit}`;
  const another = (sampleIndex: number): EpisodeJob =>
    new EpisodeJob({
      episodeId: `${groupId}.${sampleIndex}`,
      groupId,
      sampleIndex,
      task,
      seed: episodeSeed(seed ?? options.seed, `${task.id}/${own}`, sampleIndex),
    });
  const jobs = Array.from({ length: groupSize }, (_, sampleIndex) => another(sampleIndex));
  return { ...identity, request, task, jobs, another, logged: Promise.resolve() };
}

/**
 * A split by name, `null` for the service's own. Throws a `ServiceError` if it does not exist, or
 * if one of the indexes has no task, naming the first.
 */
export function findTaskset(
  split: string | null,
  taskIndexes: readonly number[],
  { environment, defaultSplit }: TaskOptions,
): Taskset {
  const found = split ?? defaultSplit;
  const refuse = (why: string): never => {
    throw new ServiceError("bad-request", `Cannot find the task: ${environment.name} ${why}.`);
  };
  if (!hasSplit(environment, found)) refuse(`has no split "${found}"; it has ${splitsText(environment)}`);
  const taskset = environment.taskset(found);
  const wrong = taskIndexes.find((index) => index >= taskset.size);
  if (wrong !== undefined) {
    refuse(`(${taskset.split}) has no task ${wrong}; indexes go from 0 to ${taskset.size - 1}`);
  }
  return taskset;
}
