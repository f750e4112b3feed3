// Messages as the reference records them: of agent, user, system and tools, with who called which tool.

import type { JsonObject } from "../../python-semantics/json/index.ts";

/** Who calls a tool: the agent is the assistant. */
export type Requestor = "assistant" | "user";

export type ToolCall = {
  /** May be empty. */
  readonly id: string;
  readonly name: string;
  readonly arguments: JsonObject;
  readonly requestor: Requestor;
};

/** Of one side; with text, with calls, with both, or with neither. */
export type SpokenMessage = {
  readonly role: Requestor;
  readonly content: string | null;
  /** `null`: it is text. An empty list is calls all the same, as in the reference. */
  readonly toolCalls: readonly ToolCall[] | null;
};

export type ToolMessage = {
  readonly role: "tool";
  /** Of the call that it answers. */
  readonly id: string;
  readonly content: string | null;
  readonly requestor: Requestor;
  readonly isError: boolean;
};

export type SystemMessage = { readonly role: "system"; readonly content: string | null };

export type Tau2Message = SpokenMessage | ToolMessage | SystemMessage;
