// Where the actions of one episode come from: an engine that continues tokens, or an agent behind an API that answers
// messages. The loop asks both in the same way and knows no difference.

import type { Decision } from "../../core/agent.ts";
import type { Episode, EpisodeEvent } from "../../core/episode.ts";
import type { AttributedError } from "../../core/failure.ts";
import type { AssistantMessage, Message, Tool } from "../../core/message.ts";
import type { ParsedAction } from "../../core/renderer.ts";
import type { RecordedEvents } from "./recorded-events.ts";
import type { Stop } from "./stop.ts";

/** The event of an action; which of the two is up to its source. */
export type ActionEvent = Extract<EpisodeEvent, { type: "turn" | "agent-reply" }>;

/** What was asked for and came. */
export type AskedAction = {
  /** Emitted before anything is made of the action. */
  readonly event: ActionEvent;
  readonly next:
    | { readonly type: "read"; readonly read: () => ParsedAction }
    /** The action is discarded; the same turn is asked for once more. */
    | { readonly type: "again" }
    /** The episode ends with this action, unread. */
    | { readonly type: "end"; readonly error: Stop | AttributedError };
};

/** What the agent is shown next. */
export type Shown = {
  /** The conversation up to and including the last action. */
  readonly history: readonly Message[];
  readonly newMessages: readonly Message[];
};

/** Single use; calls arrive one at a time, `open` first. What it throws is attributed by the loop. */
export interface ActionSource extends Pick<Episode, "trajectory" | "historyPolicy"> {
  /** `shownTools`: those of the opening; calls may be of any of `tools`. */
  open(opening: {
    readonly messages: readonly Message[];
    readonly shownTools: readonly Tool[];
    readonly tools: readonly Tool[];
  }): void;
  readonly eventType: ActionEvent["type"];
  /** Asks for the next action; may throw `Stop` before asking. */
  ask(turn: number): Promise<AskedAction>;
  /** In place of `ask`: the action that is recorded, with what follows it. Throws a divergence when it cannot have been asked for here. */
  replay(event: ActionEvent, rest: { readonly turn: number; readonly recorded: RecordedEvents }): AskedAction;
  /** The action as it stands in the history. */
  asMessage(action: ParsedAction, decision: Decision): AssistantMessage;
  show(shown: Shown): void;
  /** The episode is over. */
  close(): void;
}
