// The beginning of an episode whose process died, walked event by event by the same loop that plays live. Not a journal: see
// `store/`. What can be computed again is computed again and compared; what came from outside is taken as it came.

import type { EpisodeEvent } from "../../core/episode.ts";
import { AttributedError, type Boundary } from "../../core/failure.ts";
import type { SpokenLine } from "../../core/user.ts";
import { Stop } from "./stop.ts";

export type EventOf<T extends EpisodeEvent["type"]> = Extract<EpisodeEvent, { type: T }>;

/** Recorded events in order. Single use. */
export class RecordedEvents {
  readonly #events: readonly EpisodeEvent[];
  #next = 0;

  constructor(events: readonly EpisodeEvent[]) {
    this.#events = replayable(events);
  }

  /**
   * The next event, which must be of this type; `null` when nothing more is recorded and the episode goes on live. Throws
   * what ended the recorded episode when it ended here, and a failure "replay-diverged" when something else happened.
   */
  take<T extends EpisodeEvent["type"]>(type: T, boundary: Boundary = "environment"): EventOf<T> | null {
    const event = this.#events[this.#next];
    if (event === undefined) return null;
    if (event.type === type) {
      this.#next++;
      return event as EventOf<T>;
    }
    const ending = this.ending();
    if (ending !== null) throw ending;
    throw this.diverged(boundary, `the journal has "${event.type}", the episode comes to "${type}"`);
  }

  /** The next event without taking it. */
  peek(): EpisodeEvent | null {
    return this.#events[this.#next] ?? null;
  }

  /** What ended the recorded episode when nothing but its end is left; `null` otherwise. */
  ending(): Stop | AttributedError | null {
    const left = this.#events.slice(this.#next);
    const end = left.find((event) => event.type === "episode-end");
    if (end === undefined || left.some((event) => event.type !== "grade" && event !== end)) return null;
    return end.failure === null ? new Stop(end.stopReason) : new AttributedError(end.failure);
  }

  /** Forgets what is left: the episode ends here, live. */
  drop(): void {
    this.#next = this.#events.length;
  }

  diverged(boundary: Boundary, difference: string): AttributedError {
    return new AttributedError({
      boundary,
      code: "replay-diverged",
      message:
        `Cannot go on with the episode from its journal: at event ${this.#next} of ${this.#events.length} ${difference}. Its environment, ` +
        "prompts and settings must be those that it began with; play it anew in a run of its own.",
      retryable: false,
      cause: null,
    });
  }
}

/** Of the events of all processes: who was cancelled goes on, and what needs the event after it is asked for again when that is missing. */
function replayable(events: readonly EpisodeEvent[]): readonly EpisodeEvent[] {
  const uncancelled = events.filter((event) => event.type !== "episode-end" || event.stopReason !== "cancelled");
  return uncancelled.filter((event, index) => {
    const next = uncancelled[index + 1]?.type;
    if (event.type === "agent-reply") return next === "decision" || next === "episode-end";
    return event.type !== "grade" || next === "episode-end";
  });
}

/** What the user has said so far, for `UserSource.resume`. */
export function spokenLines(events: readonly EpisodeEvent[]): readonly SpokenLine[] {
  const spoken: SpokenLine[] = [];
  let heard: string | null = null;
  for (const event of events) {
    if (event.type === "decision" && event.decision.type === "say") heard = event.decision.words;
    else if (event.type === "user-line") spoken.push({ heard, line: event.line });
  }
  return spoken;
}
