// Messages as the agent's side of a conversation sees them. Not the wire shape of any provider; the chat template of a
// model family decides how they read.

/** One tool call that a policy wrote. */
export type ToolCall = {
  /** Unique within the episode, e.g. `call_3_0` (turn, place within the turn). */
  readonly id: string;
  readonly name: string;
  /** JSON text of the arguments as the parser reports it; never re-serialized. */
  readonly argumentsText: string;
};

export type SystemMessage = { readonly role: "system"; readonly content: string };
export type UserMessage = { readonly role: "user"; readonly content: string };
export type AssistantMessage = {
  readonly role: "assistant";
  /**
   * The words. In an episode's history this is the raw action, decoded, without its end token (tags, calls and thinking
   * included), `reasoning` is null and `toolCalls` is empty: the template then renders what the policy wrote. What an API
   * model said stands in its parts, with the one call that gets an answer.
   */
  readonly content: string;
  readonly reasoning: string | null;
  readonly toolCalls: readonly ToolCall[];
};
export type ToolMessage = {
  readonly role: "tool";
  readonly content: string;
  readonly name: string;
  readonly callId: string | null;
};

export type Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage;
