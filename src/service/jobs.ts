// Requested episodes and groups, and what the service remembers of them. Independent of HTTP; decisions are made elsewhere.
//
//   waiting ─► running ─► ended
//      ├────── cancel ───────┘
//      └────── suspend: the service closes, and the next process resumes it

import {
  attribute,
  type EnvironmentSource,
  type Episode,
  type EpisodeEvent,
  type Failure,
  type Outcome,
  type StopReason,
  type Task,
  type Taskset,
} from "../core/index.ts";
import { Waiters } from "../lib/deadline.ts";
import { toPlain } from "../python-semantics/json/plain.ts";
import { episodeSeed } from "../rollout/index.ts";
import { ServiceError } from "./service-error.ts";
import type { PolicyRequest } from "./service-options.ts";

/** Where an episode belongs, and its task. */
export type EpisodePlace = {
  readonly episodeId: string;
  readonly groupId: string;
  readonly sampleIndex: number;
  readonly task: Task;
  readonly seed: number;
};

export class EpisodeJob {
  readonly place: EpisodePlace;
  readonly #controller = new AbortController();
  readonly #waiters = new Waiters();
  readonly #events: EventView[] = [];
  #status: "waiting" | "running" | "ended" = "waiting";
  #summary: EpisodeSummary | null = null;
  #isForgotten = false;
  #isStored = false;
  #isSuspended = false;

  constructor(place: EpisodePlace) {
    this.place = place;
  }

  get status(): "waiting" | "running" | "ended" {
    return this.#status;
  }

  /** Set once it has ended. */
  get summary(): EpisodeSummary | null {
    return this.#summary;
  }

  /** Its episode is in the store; once it has ended. */
  get isStored(): boolean {
    return this.#isStored;
  }

  /** The service closes before it has ended: nothing more happens in this process. */
  get isSuspended(): boolean {
    return this.#isSuspended;
  }

  /** Aborted when it is to stop. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** `null` once they are forgotten. */
  get events(): readonly EventView[] | null {
    return this.#isForgotten ? null : this.#events;
  }

  begin(): void {
    this.#status = "running";
    this.#waiters.wake();
  }

  see(event: EventView): void {
    this.#events.push(event);
    this.#waiters.wake();
  }

  end(summary: EpisodeSummary, { isStored }: { readonly isStored: boolean }): void {
    this.#status = "ended";
    this.#summary = summary;
    this.#isStored = isStored;
    this.#waiters.wake();
  }

  /** An earlier process ran and stored it; its events are not in memory. */
  endStored(summary: EpisodeSummary): void {
    this.end(summary, { isStored: true });
    this.forgetEvents();
  }

  cancel(): void {
    this.#controller.abort(new Error("The episode was cancelled."));
  }

  /** No effect on one that has ended or was cancelled before. */
  suspend(): void {
    if (this.#status === "ended" || this.signal.aborted) return;
    this.#isSuspended = true;
    this.#controller.abort(new Error("The service is closing."));
    this.#waiters.wake();
  }

  /** Frees the memory of its events. */
  forgetEvents(): void {
    this.#events.length = 0;
    this.#isForgotten = true;
  }

  /** Resolves at its next change; rejects with the signal's reason when that aborts first. */
  changed(signal: AbortSignal): Promise<void> {
    return this.#waiters.wait(signal);
  }
}

/** A JSON object; `type` as in `EpisodeEvent`, names in snake_case. */
export type EventView = Readonly<Record<string, unknown>> & { readonly type: string };

export function viewEvent(event: EpisodeEvent): EventView {
  const { type } = event;
  switch (event.type) {
    case "episode-start":
      return { type, episode_id: event.episodeId, task_id: event.taskId };
    case "user-line":
      return { type, line: event.line.type, text: event.line.text, duration_ms: event.durationMs };
    case "turn":
      return {
        type,
        turn: event.turn.index,
        prompt_tokens: event.usage.promptTokens,
        sampled_tokens: event.turn.sampledTokens.length,
        finish_reason: event.turn.finish.reason,
        weight_versions: event.turn.weightSpans.map(({ reply }) => reply),
        retries: event.attempts.length,
        duration_ms: event.durationMs,
      };
    case "agent-reply":
      return { type, turn: event.turn, retries: event.attempts.length, duration_ms: event.durationMs };
    case "decision": {
      const { decision, action } = event;
      return {
        type,
        turn: event.turn,
        decision: decision.type,
        reasoning: action.reasoning,
        text: decision.type === "say" ? decision.words : action.content,
        call: decision.type === "call" ? { name: decision.call.name, arguments: toPlain(decision.arguments) } : null,
        problems: decision.problems.map(({ code, detail }) => ({ code, detail })),
      };
    }
    case "tool-result":
      return {
        type,
        turn: event.turn,
        text: event.result.text,
        is_error: event.result.isError,
        duration_ms: event.durationMs,
      };
    case "grade":
      return { type, reward: event.grade.reward, metrics: event.grade.metrics };
    case "episode-end":
      return { type, stop_reason: event.stopReason, failure: event.failure };
    default:
      return event satisfies never;
  }
}

/** An ended episode in a few numbers: for clients that wait for it, and all that stays in memory of it. */
export type EpisodeSummary = {
  readonly outcome: Outcome;
  readonly stopReason: StopReason;
  readonly reward: number | null;
  readonly failure: Failure | null;
  readonly metrics: Readonly<Record<string, number>>;
  readonly turns: number;
  readonly sampledTokens: number;
  /** In the order they first sampled; `null` stands for an engine that names none. */
  readonly weightVersions: readonly (string | null)[];
  /** Counts of format errors, by code. */
  readonly problems: Readonly<Record<string, number>>;
};

/** Of an episode that was cancelled before it began. */
export const notStarted: EpisodeSummary = Object.freeze({
  outcome: "aborted",
  stopReason: "cancelled",
  reward: null,
  failure: null,
  metrics: {},
  turns: 0,
  sampledTokens: 0,
  weightVersions: [],
  problems: {},
});

export function summarize(episode: Episode): EpisodeSummary {
  const { turns } = episode.trajectory;
  const problems: Record<string, number> = {};
  for (const { code } of episode.problems) problems[code] = (problems[code] ?? 0) + 1;
  return {
    outcome: episode.outcome,
    stopReason: episode.stopReason,
    reward: episode.reward,
    failure: episode.failure,
    metrics: episode.grade?.metrics ?? {},
    turns: turns.length,
    sampledTokens: turns.reduce((sum, { sampledTokens }) => sum + sampledTokens.length, 0),
    weightVersions: [...new Set(turns.flatMap(({ weightSpans }) => weightSpans.map(({ reply }) => reply)))],
    problems,
  };
}

/** The error of a runner or a store: a mistake of configuration, broken accounting, a full disk. Reported to the client; nothing is trained. */
export function notRun(error: unknown): EpisodeSummary {
  const { failure } = attribute(error, "environment", "not-played");
  return { ...notStarted, outcome: "failed", stopReason: "fault", failure };
}

/** Episodes of one task that belong together; a single episode is a group of one. */
export type GroupRequest = {
  readonly split: string | null;
  readonly taskIndex: number;
  readonly groupSize: number;
  /** `null`: derived from the service's seed and the group's id. */
  readonly seed: number | null;
  readonly policy: PolicyRequest;
  /** How often its producer has run the task, this time included; 1 for requested groups. */
  readonly visit: number;
  /** Further episodes that may run in place of those without a reward. */
  readonly replacements: number;
};

/** The part of a group that is equal in every process. */
export type GroupIdentity = {
  readonly groupId: string;
  /** Number of the group in the service. */
  readonly groupIndex: number;
  /** Of the body: a repeated key must come with the same. */
  readonly bodyHash: string;
  /** The producer it belongs to; `null`: it was requested on its own. */
  readonly producerId: string | null;
};

export type GroupJob = GroupIdentity & {
  readonly request: GroupRequest;
  /** Grows where episodes are replaced. */
  readonly jobs: EpisodeJob[];
  /** Makes the job of a further episode of the group. */
  readonly another: (sampleIndex: number) => EpisodeJob;
};

export type TaskOptions = {
  readonly environment: EnvironmentSource;
  readonly defaultSplit: string;
  /** Of the service. */
  readonly seed: number;
};

/**
 * A group whose episodes wait, with their places and seeds: equal requests give equal episodes in every process. Throws a
 * `ServiceError` for a task that does not exist.
 */
export function openGroup(request: GroupRequest, identity: GroupIdentity, options: TaskOptions): GroupJob {
  const { groupId, groupIndex, bodyHash, producerId } = identity;
  const { seed, visit, taskIndex, groupSize } = request;
  const taskset = findTaskset(request.split, [taskIndex], options);
  const task = taskset.task(taskIndex);
  const another = (sampleIndex: number): EpisodeJob => {
    // The task's id is part of it, so that equal seeds and keys never couple different tasks.
    const own = seed === null ? groupId : visit === 1 ? "" : `@${visit}`;
    return new EpisodeJob({
      episodeId: `${groupId}.${sampleIndex}`,
      groupId,
      sampleIndex,
      task,
      seed: episodeSeed(seed ?? options.seed, `${task.id}/${own}`, sampleIndex),
    });
  };
  const jobs = Array.from({ length: groupSize }, (_, sampleIndex) => another(sampleIndex));
  return { groupId, groupIndex, bodyHash, producerId, request, jobs, another };
}

/**
 * A split by name, `null` for the service's own. Throws a `ServiceError` when there is none, and one that names the first of the
 * indexes without a task.
 */
export function findTaskset(
  split: string | null,
  taskIndexes: readonly number[],
  { environment, defaultSplit }: TaskOptions,
): Taskset {
  const name = split ?? defaultSplit;
  if (!environment.splits.includes(name)) {
    throw new ServiceError(
      "bad-request",
      `Cannot find the task: ${environment.name} has no split "${name}"; it has ${environment.splits.join(", ")}.`,
    );
  }
  const taskset = environment.taskset(name);
  const wrong = taskIndexes.find((index) => index >= taskset.size);
  if (wrong === undefined) return taskset;
  throw new ServiceError(
    "bad-request",
    `Cannot find the task: ${environment.name} (${taskset.split}) has no task ${wrong}; indexes go from 0 to ${taskset.size - 1}.`,
  );
}
