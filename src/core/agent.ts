// The agent as a contract: a strategy that prompts and reads the turns of a token policy
// (`agents/`), and an agent behind an API.

import type { JsonObject } from "../python-semantics/json/value.ts";
import type { Attempt } from "./failure.ts";
import type { Message, ToolCall, Tool } from "./message.ts";
import type { ParsedAction } from "./renderer.ts";
import type { ModelUsage } from "./user.ts";

/** The closed taxonomy of problems of an action. */
export const actionProblemCodes = [
  "not-json",
  "not-an-object",
  "unknown-tool",
  "schema-violation",
  "several-calls",
  "unterminated-call",
  "spoofed-marker",
  "other-format",
  "repaired",
  "cut-off",
  "no-call",
] as const;

export type ActionProblemCode = (typeof actionProblemCodes)[number];

export type ActionProblem = {
  readonly code: ActionProblemCode;
  readonly toolName: string | null;
  readonly detail: string;
};

/** One of several calls of an action. */
export type CallDecision = {
  /** `null` if the text could not be read as a call. */
  readonly call: ToolCall | null;
  /** `null` if the call is not carried out. */
  readonly arguments: JsonObject | null;
  /** Text that the policy reads in place of a result; `null` exactly where the call is carried out. */
  readonly feedback: string | null;
  readonly problems: readonly ActionProblem[];
};

/** The loop's reaction to an action. Problems are counted for every type of decision. */
export type Decision = { readonly problems: readonly ActionProblem[] } & (
  | { readonly type: "call"; readonly call: ToolCall; readonly arguments: JsonObject }
  /**
   * Several calls, carried out in order; a wrong one does not undo the others. At least two.
   * `problems` includes those of the calls.
   */
  | { readonly type: "calls"; readonly calls: readonly CallDecision[] }
  | { readonly type: "say"; readonly content: string }
  /** No call is carried out; the policy reads `feedback` and continues. */
  | { readonly type: "observe"; readonly feedback: string; readonly call: ToolCall | null }
  /** The episode ends here and is graded (stop reason "bad_action"). */
  | { readonly type: "end" }
  /**
   * The episode is aborted here and not graded, as in the upstream program (stop reason
   * "bad_action_aborted").
   */
  | { readonly type: "abort" }
);

/** The calls of an action, each of which gets an observation; empty for an action without calls. */
export function callsOf(decision: Decision): readonly CallDecision[] {
  const { problems } = decision;
  switch (decision.type) {
    case "calls":
      return decision.calls;
    case "call":
      return [{ call: decision.call, arguments: decision.arguments, feedback: null, problems }];
    case "observe":
      return [{ call: decision.call, arguments: null, feedback: decision.feedback, problems }];
    case "say":
    case "end":
    case "abort":
      return [];
    default:
      return decision satisfies never;
  }
}

/** First prompt of an episode: the messages and tools that the policy sees. */
export type Opening = {
  readonly messages: readonly Message[];
  /** Tools that the chat template shows; none for strategies that describe them in the prompt. */
  readonly tools: readonly Tool[];
};

/**
 * Prompts a turn and reads its action. Pure and shared by all episodes; knows no engine, no tokens
 * and no environment.
 */
export interface AgentStrategy {
  readonly name: string;
  /** `seed` is the episode's own, for strategies that draw examples. */
  open(input: {
    readonly guidelines: string;
    readonly tools: readonly Tool[];
    readonly firstUtterance: string;
    readonly seed: number;
  }): Opening;
  /**
   * Decides about an action; never throws on model output. `argumentErrors`, `unknownTools` and
   * `calls` as in `EnvironmentSource`; `turn` is part of the ids of calls that are read here.
   */
  decide(
    action: ParsedAction,
    options: {
      readonly tools: readonly Tool[];
      readonly argumentErrors: "environment" | "loop";
      /** @default "loop" */
      readonly unknownTools?: "environment" | "loop";
      /** @default "several" */
      readonly calls?: "one" | "several";
      readonly turn: number;
    },
  ): Decision;
  /**
   * The message that reports the consequence of a decision to the policy. `call`: index of the call
   * that it answers, if there are several.
   */
  observe(decision: Decision, observation: string, call?: number): Message;
}

/** Input of a chat agent: the whole conversation so far. */
export type ChatRequest = {
  readonly messages: readonly Message[];
  /** Empty for strategies that describe the tools in the prompt. */
  readonly tools: readonly Tool[];
  /** Turn number, for the ids of calls that the model returns without one. */
  readonly turn: number;
  /** Sampling seed, for models that take one; `null`: the model's own randomness. */
  readonly seed: number | null;
};

export type ChatAnswer = {
  /** The answer in the form that a renderer would have parsed. */
  readonly action: ParsedAction;
  /** Usage of all attempts together. */
  readonly usage: ModelUsage;
  /** Failed attempts. */
  readonly attempts: readonly Attempt[];
};

/**
 * An agent behind an API, which exchanges messages instead of tokens. For evaluation only: the
 * tokens that it sampled are not known, so none of them can be trained.
 *
 * Guarantees: any model output is an answer; faults of the call reject with an `AttributedError` at
 * boundary "engine", code "context-length" for a conversation that grew too long. Asynchronous,
 * safe to call concurrently. The agent has its own retries, deadlines and limits, because they
 * belong to a provider and not to an episode.
 */
export interface ChatAgent {
  readonly name: string;
  reply(request: ChatRequest, options?: { readonly signal?: AbortSignal }): Promise<ChatAnswer>;
}
