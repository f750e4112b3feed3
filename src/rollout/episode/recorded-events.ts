// The recorded part of an episode whose process died, replayed event by event by the same loop that
// runs live. Not a journal: see `store/`. Computed values are computed again and compared; values
// from outside are taken as recorded; the user continues after the lines that it has spoken.

import type { Task, ToolResult } from "../../core/environment.ts";
import { attribute, ConfigurationError, type AttributedError, type Boundary, faultAt } from "../../core/failure.ts";
import type { UserSimulator, UserSource, PastLine } from "../../core/user.ts";
import { deriveSeed } from "../../lib/random.ts";
import type { ResolvedOptions } from "./episode-options.ts";
import type { EpisodeEvent } from "../../core/episode.ts";
import type { Ending } from "./step-deadlines.ts";

export type EventOf<T extends EpisodeEvent["type"]> = Extract<EpisodeEvent, { type: T }>;

/** Recorded events in order. Single use. */
export class RecordedEvents {
  readonly #events: readonly EpisodeEvent[];
  #next = 0;

  constructor(events: readonly EpisodeEvent[]) {
    this.#events = replayable(events);
  }

  /**
   * The next event, which must be of this type; `null` when all recorded events are replayed and
   * the episode continues live. Returns the ending of the recorded episode if it ended here. Throws
   * a failure "replay-diverged" when the recorded event is of another type.
   */
  take<T extends EpisodeEvent["type"]>(type: T, boundary: Boundary = "environment"): EventOf<T> | Ending | null {
    const event = this.#events[this.#next];
    if (event === undefined) return null;
    if (event.type === type) {
      this.#next++;
      return event as EventOf<T>;
    }
    const ending = this.ending();
    if (ending !== null) return ending;
    throw this.diverged(boundary, `the journal has "${event.type}", but the episode expects "${type}"`);
  }

  /** The next event without taking it. */
  peek(): EpisodeEvent | null {
    return this.#events[this.#next] ?? null;
  }

  /** The ending of the recorded episode when nothing but its end is left; `null` otherwise. */
  ending(): Ending | null {
    const left = this.#events.slice(this.#next);
    const end = left.find((event) => event.type === "episode-end");
    if (end === undefined || left.some((event) => !isGrading(event) && event !== end)) return null;
    return { type: "ending", stopReason: end.stopReason, failure: end.failure };
  }

  /**
   * True if the rest of the record only grades the episode: it had ended and was being graded, or
   * was graded, when its process died.
   */
  isBeingGraded(): boolean {
    return this.#events.slice(this.#next).every((event) => isGrading(event) || event.type === "episode-end");
  }

  /** Drops the remaining events: the episode ends here, live. */
  drop(): void {
    this.#next = this.#events.length;
  }

  diverged(boundary: Boundary, difference: string): AttributedError {
    return faultAt(
      boundary,
      "replay-diverged",
      `Cannot resume the episode from its journal: at event ${this.#next} of ${this.#events.length} ${difference}. Its environment, ` +
        "prompts and settings must be those that it began with; run it again in a run of its own.",
    );
  }
}

function isGrading({ type }: EpisodeEvent): boolean {
  return type === "judgement" || type === "grade";
}

/**
 * Selects the events to replay from those of all processes: a cancelled episode continues, and an
 * event whose follower is missing is requested again.
 */
function replayable(events: readonly EpisodeEvent[]): readonly EpisodeEvent[] {
  const uncancelled = events.filter(
    (event) => event.type !== "close-failure" && (event.type !== "episode-end" || event.stopReason !== "cancelled"),
  );
  return uncancelled.filter((event, index) => {
    const next = uncancelled[index + 1]?.type;
    if (event.type === "agent-reply") return next === "decision" || next === "episode-end";
    // A judge that failed is asked again, unless the episode failed with it.
    if (event.type === "judgement") return event.judgement.failure === null || next === "episode-end";
    return event.type !== "grade" || next === "episode-end";
  });
}

/** The user's lines so far, for `UserSource.resume`. */
export function spokenLines(events: readonly EpisodeEvent[]): readonly PastLine[] {
  const spoken: PastLine[] = [];
  let heard: string | null = null;
  let results: readonly ToolResult[] | null = null;
  for (const event of events) {
    if (event.type === "decision" && event.decision.type === "say") heard = event.decision.content;
    else if (event.type === "user-outcome" && event.outcome.results.length > 0) ({ results } = event.outcome);
    else if (event.type === "user-line") {
      spoken.push(
        results === null ? { utterance: heard, line: event.line } : { utterance: null, line: event.line, results },
      );
      results = null;
    }
  }
  return spoken;
}

/**
 * The user of an episode at the current point of its conversation. Throws a `ConfigurationError`
 * when the source cannot make it; any other error of the source is a failure of the episode, at its
 * first line.
 */
export function makeUser(source: UserSource, task: Task, options: ResolvedOptions): UserSimulator {
  try {
    return createUser(source, task, options);
  } catch (error) {
    if (error instanceof ConfigurationError) throw error;
    const fail = (): Promise<never> => Promise.reject(attribute(error, "user"));
    return { open: fail, reply: fail };
  }
}

function createUser(source: UserSource, task: Task, options: ResolvedOptions): UserSimulator {
  const seed = deriveSeed(options.seed, "user");
  const spoken = spokenLines(options.resumeFrom);
  const last = spoken.at(-1)?.line.type;
  // After a hang-up no further line is requested.
  if (last === undefined || last === "hang-up") return source.create(task, { seed });
  if (source.resume !== undefined) return source.resume(task, { seed, lines: spoken });
  throw new ConfigurationError(
    `Cannot resume episode "${options.episodeId}" after ${spoken.length} lines of user "${source.name}": it cannot resume ` +
      "a conversation; add a resume method (see UserSource), or run the task again.",
  );
}
