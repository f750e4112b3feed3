import type { JsonObject } from "../python-semantics/json/value.ts";
import type { Message, ToolCall } from "./message.ts";
import type { ParsedAction } from "./renderer.ts";
import type { Tool } from "./tool.ts";

/** The closed taxonomy of what can be wrong with an action. */
export type ActionProblemCode =
  | "not-json"
  | "not-an-object"
  | "unknown-tool"
  | "schema-violation"
  | "several-calls"
  | "unterminated-call"
  | "spoofed-marker"
  | "repaired"
  | "cut-off"
  | "no-call";

export type ActionProblem = {
  readonly code: ActionProblemCode;
  readonly toolName: string | null;
  readonly detail: string;
};

/** What the loop does about an action. Problems are counted whatever is done about them. */
export type Decision = { readonly problems: readonly ActionProblem[] } & (
  | { readonly type: "call"; readonly call: ToolCall; readonly arguments: JsonObject }
  | { readonly type: "say"; readonly words: string }
  /** Nothing is carried out; the policy reads `feedback` and goes on. */
  | { readonly type: "observe"; readonly feedback: string; readonly call: ToolCall | null }
  /** The episode ends here and is graded (stop reason "bad_action"). */
  | { readonly type: "end" }
  /** The episode is aborted here and not graded, as the seed does (stop reason "bad_action_aborted"). */
  | { readonly type: "abort" }
);

/** How an episode begins for the policy. */
export type Opening = {
  readonly messages: readonly Message[];
  /** Tools that the chat template shows; none for strategies that describe them in words. */
  readonly tools: readonly Tool[];
};

/**
 * How a turn is prompted and read. Pure and shared by all episodes; knows no engine, no tokens and no environment.
 */
export interface AgentStrategy {
  readonly name: string;
  /** `seed` is the episode's own, for strategies that draw what they show. */
  open(input: {
    readonly guidelines: string;
    readonly tools: readonly Tool[];
    readonly firstWords: string;
    readonly seed: number;
  }): Opening;
  /** Never throws on model output. `argumentErrors` as in `EnvironmentSource`; `turn` numbers the ids of calls that are read here. */
  decide(
    action: ParsedAction,
    options: {
      readonly tools: readonly Tool[];
      readonly argumentErrors: "environment" | "loop";
      readonly turn: number;
    },
  ): Decision;
  /** The message by which the policy learns what its decision led to. */
  observe(decision: Decision, observation: string): Message;
}
