/** Why an episode ended. Values are snake_case because run files and trainers read them. */
export type StopReason =
  | "tool_ended"
  | "user_hung_up"
  | "max_turns"
  | "max_tokens"
  | "context_length"
  /** A problem of an action whose policy is to end the episode, graded. */
  | "bad_action"
  /** The same, not graded: what the seed does. */
  | "bad_action_aborted"
  | "engine_abort"
  | "cancelled"
  | "fault";

/** completed: ended by tool or user. truncated: a limit. aborted: we, or a weight update, cancelled it. failed: a fault. */
export type Outcome = "completed" | "truncated" | "aborted" | "failed";

/** The outcome follows from the stop reason, never the other way round. */
export function outcomeOf(stop: StopReason): Outcome {
  switch (stop) {
    case "tool_ended":
    case "user_hung_up":
    case "bad_action":
      return "completed";
    case "max_turns":
    case "max_tokens":
    case "context_length":
      return "truncated";
    case "engine_abort":
    case "bad_action_aborted":
    case "cancelled":
      return "aborted";
    case "fault":
      return "failed";
    default:
      return stop satisfies never;
  }
}
