// Messages as the reference records them: of agent, user, system and tools, with the requestor of
// each tool call.

import type { JsonObject } from "../../python-semantics/json/index.ts";

/** The side that calls a tool; the agent is the assistant. */
export type Requestor = "assistant" | "user";

export type ToolCall = {
  /** Id of the call; may be empty. */
  readonly id: string;
  readonly name: string;
  readonly arguments: JsonObject;
  readonly requestor: Requestor;
};

/** A message of one side, with text, calls, both or neither. */
export type SpokenMessage = {
  readonly role: Requestor;
  readonly content: string | null;
  /** `null` for a message of text. An empty list still counts as calls, as in the reference. */
  readonly toolCalls: readonly ToolCall[] | null;
};

export type ToolMessage = {
  readonly role: "tool";
  /** Id of the call that it answers. */
  readonly id: string;
  readonly content: string | null;
  readonly requestor: Requestor;
  readonly isError: boolean;
};

export type SystemMessage = { readonly role: "system"; readonly content: string | null };

export type Tau2Message = SpokenMessage | ToolMessage | SystemMessage;
