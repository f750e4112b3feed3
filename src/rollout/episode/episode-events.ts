// The events of one episode. Each reaches the sink before it counts; those that an earlier process
// recorded are replayed first, by the same steps: values from outside are taken as recorded,
// computed ones must be equal. So the loop knows nothing of resuming.

import type { Episode, EpisodeEvent } from "../../core/episode.ts";
import { attribute, type AttributedError, type Boundary } from "../../core/failure.ts";
import { addUsage, freeUsage, type ModelUsage } from "../../core/user.ts";
import { isSameValue } from "../../python-semantics/json/value.ts";
import type { ActionSource, RequestedAction } from "./actions.ts";
import { type Ending, isEnding, type StepDeadlines } from "./step-deadlines.ts";
import type { ResolvedOptions } from "./episode-options.ts";
import { type EventOf, RecordedEvents } from "./recorded-events.ts";

type ComputedEvent = EventOf<"episode-start" | "decision" | "tool-result" | "user-outcome">;

/** Single use; calls arrive one at a time. */
export class EpisodeEvents {
  /** Events in the order in which they happened, those of earlier processes included. */
  readonly events: EpisodeEvent[] = [];
  readonly #options: Pick<ResolvedOptions, "onEvent" | "resumeFrom">;
  readonly #steps: StepDeadlines;
  readonly #recorded: RecordedEvents;

  constructor(options: Pick<ResolvedOptions, "onEvent" | "resumeFrom">, steps: StepDeadlines) {
    this.#options = options;
    this.#steps = steps;
    this.#recorded = new RecordedEvents(options.resumeFrom);
  }

  /** An event from outside, recorded or live. */
  async step<T extends EpisodeEvent["type"]>(
    type: T,
    boundary: Boundary,
    live: () => Promise<EventOf<T>>,
  ): Promise<EventOf<T> | Ending> {
    const recorded = this.#recorded.take(type, boundary);
    if (isEnding(recorded)) return recorded;
    const event = recorded ?? (await live());
    if (recorded === null) await this.emit(event);
    else this.events.push(event);
    return event;
  }

  /** The next action of a turn, recorded or requested now. */
  async action(actions: ActionSource, turn: number): Promise<RequestedAction | Ending> {
    const recorded = this.#recorded.take(actions.eventType, "engine");
    if (isEnding(recorded)) return recorded;
    const replay = (event: NonNullable<typeof recorded>) => actions.replay(event, { turn, recorded: this.#recorded });
    const requested =
      recorded === null ? await actions.act(turn) : await this.#steps.guard("renderer", () => replay(recorded));
    if ("stopReason" in requested) return requested;
    if (recorded === null) await this.emit(requested.event);
    else this.events.push(requested.event);
    return requested;
  }

  /** Emits a computed event; a recorded one must be equal. Returns the ending when the recorded episode ended here. */
  async confirm(event: ComputedEvent, boundary: Boundary): Promise<Ending | null> {
    const recorded = this.#recorded.take(event.type, boundary);
    if (isEnding(recorded)) return recorded;
    if (recorded === null) {
      await this.emit(event);
      return null;
    }
    if (!isSameValue({ ...recorded, durationMs: 0 }, { ...event, durationMs: 0 })) {
      throw this.diverged(boundary, `the recorded "${event.type}" is different`);
    }
    this.events.push(recorded);
    return null;
  }

  /** Throws a failure at boundary "store" when the sink does not take the event. */
  async emit(event: EpisodeEvent): Promise<void> {
    try {
      await this.#options.onEvent?.(event);
    } catch (error) {
      throw attribute(error, "store", "event-not-recorded");
    }
    this.events.push(event);
  }

  /**
   * Begins the episode again in place of a replay: keeps and returns the turns of earlier
   * processes, and drops everything else.
   */
  async restart(actions: Pick<ActionSource, "restart">): Promise<void> {
    const { resumeFrom } = this.#options;
    this.#recorded.drop();
    const before = resumeFrom.filter((event) => event.type === "turn");
    const turns = before.map(({ turn }) => turn);
    actions.restart(turns);
    this.events.push(...before);
    // Earlier restarts are skipped, because the events whose usage they state are still recorded.
    const usage = episodeUsage({ events: resumeFrom.filter(({ type }) => type !== "restart") });
    await this.emit({ type: "restart", turns: turns.map(({ index }) => index), usage });
  }

  /**
   * Called when the conversation has ended. If the recorded episode was cut short or diverged, the
   * rest of its record is not replayed.
   */
  endConversation({ failure }: Ending): void {
    const isWalkedOn = this.#recorded.ending() !== null || (failure === null && this.#recorded.isBeingGraded());
    if (!isWalkedOn) this.#recorded.drop();
  }

  /** Emits the last event. Returns the recorded ending if it differs. */
  async end({ stopReason, failure }: Ending): Promise<Ending | null> {
    const recorded = this.#recorded.take("episode-end");
    if (isEnding(recorded)) return recorded;
    if (recorded?.stopReason === stopReason) this.events.push(recorded);
    else await this.emit({ type: "episode-end", stopReason, failure });
    return null;
  }

  diverged(boundary: Boundary, difference: string): AttributedError {
    return this.#recorded.diverged(boundary, difference);
  }
}

/** Usage of the models behind APIs in an episode, by role. */
export type EpisodeUsage = { readonly agent: ModelUsage; readonly user: ModelUsage; readonly judge: ModelUsage };

/**
 * Sums every call of an episode, retries and checks included. Zero for an agent with an engine, or
 * a user without a model.
 */
export function episodeUsage({ events }: Pick<Episode, "events">): EpisodeUsage {
  let [agent, user, judge] = [freeUsage, freeUsage, freeUsage];
  for (const event of events) {
    if (event.type === "agent-reply") agent = addUsage(agent, event.usage);
    if (event.type === "user-line") user = addUsage(user, event.line.usage);
    if (event.type === "restart") {
      agent = addUsage(agent, event.usage.agent);
      user = addUsage(user, event.usage.user);
      judge = addUsage(judge, event.usage.judge);
    }
    if (event.type === "judgement") judge = addUsage(judge, event.judgement.usage);
  }
  return { agent, user, judge };
}
