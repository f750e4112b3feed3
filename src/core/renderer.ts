// Contract of the renderer: messages to token ids, and sampled output to structure. Implementations
// are in `renderers/` and `parsers/`.

import type { Steps } from "../lib/steps.ts";
import type { JsonObject } from "../python-semantics/json/value.ts";
import type { ActionForms } from "./constraint.ts";
import type { Message, ToolCall, Tool } from "./message.ts";
import type { IncrementalDecoder } from "./tokenizer.ts";

/** Place of a message in rendered tokens: `[start, end)`. */
export type MessageSpan = { readonly message: number; readonly start: number; readonly end: number };

export type RenderedPrompt = {
  readonly tokens: Uint32Array;
  readonly text: string;
  /**
   * One per message, in order; tokens outside of any message (the generation prompt) are in no
   * span.
   */
  readonly spans: readonly MessageSpan[];
  /** Control tokens that users and tools spelled out, and that are plain text in `tokens`. */
  readonly spelledTokens: number;
};

export const parseProblemCodes = [
  "not-json",
  "not-an-object",
  "no-name",
  "unknown-tool",
  "unterminated-call",
  "spoofed-marker",
  /** The text is a call, or holds one, in a format that is not the model's: bare JSON, a code block, other tags, another family's. */
  "other-format",
  /**
   * A near-miss was read as the call it nearly is; `detail` names the repair. Only in repair mode,
   * which is opt-in.
   */
  "repaired",
] as const;

/**
 * An error that a parser found in sampled output. Syntax only: a call is validated against its
 * tool's schema in `agents/`.
 */
export type ParseProblem = {
  readonly code: (typeof parseProblemCodes)[number];
  /** The offending text, as sampled. */
  readonly text: string;
  /** Name of the requested tool, when it could be read. */
  readonly toolName: string | null;
  readonly detail: string;
  /** Number of calls that were read before it; absent if there were none. */
  readonly callsBefore?: number;
};

/** A parsed action. */
export type ParsedAction = {
  /** The whole action, decoded, without its end token. */
  readonly text: string;
  readonly reasoning: string | null;
  /**
   * The text beside reasoning and calls. Without a call: all text beside reasoning, so that no text
   * of the policy is lost.
   */
  readonly content: string;
  readonly toolCalls: readonly ToolCall[];
  readonly problems: readonly ParseProblem[];
  /** True when the action ended with a stop token, or at a stop string of the request; false when it was cut off. */
  readonly isTerminated: boolean;
};

/** Input of a bridge: the history up to and including the last action, and the new messages. */
export type BridgeInput = {
  /** The whole history, the last action included as its last message. */
  readonly messages: readonly Message[];
  readonly tools: readonly Tool[];
  /** The ids of the last action. */
  readonly lastAction: Uint32Array;
  /**
   * The messages after the last action: all tool results of the turn together, or the user's
   * utterance.
   */
  readonly newMessages: readonly Message[];
};

/**
 * Difference between appended tokens and the template's output, independent of the history policy.
 * "other-end-token": the action ended with a stop token that the template does not write there
 * (`<|endoftext|>` where it writes `<|im_end|>`); the template's own tokens follow it.
 */
export type TemplateDeviation = "other-end-token";

export type BridgeResult =
  /** Append these after the last action; the result ends with the generation prompt. */
  | {
      readonly type: "extended";
      readonly tokens: Uint32Array;
      /** Control tokens spelled out in the new messages, as in `RenderedPrompt`. */
      readonly spelledTokens: number;
      /** `null` if the tokens are those that the template writes. */
      readonly deviation: TemplateDeviation | null;
    }
  /** The template rewrites earlier messages; render again and start a branch. */
  | { readonly type: "refused"; readonly reason: string };

/** Names and settings of the parsers that read actions. */
export type ParserFacts = {
  readonly toolCalls: string;
  /** `null` if no reasoning is split off. */
  readonly reasoning: string | null;
  /**
   * "tokens": a marker counts only as a control token. "text": markers are found in text, as in the
   * text parsers of servers.
   */
  readonly mode: "tokens" | "text";
  /** True if near-misses are read as the calls they nearly are. */
  readonly repair: boolean;
};

/**
 * Messages to token ids and back, for one model family.
 *
 * Guarantees: `renderPrompt` gives the tokens of the family's own chat template with the generation prompt, after the
 * configured prompt edits, except that control tokens spelled out in the content of user and tool messages are text there:
 * the prompt still decodes to the same text, but only the template (and the guidelines, which are trusted) can end a turn or
 * open another. A bridged prompt decodes to what that template renders for the same messages, or, where the
 * template rewrites history, to what `historyPolicy` names.
 * Left out on purpose: sampling, and any judgement of tool calls against schemas.
 */
export interface Renderer {
  readonly family: string;
  /** "append-only": the template never rewrites. Otherwise "keep-reasoning" (history is only appended to, against the template) or "branch" (a rewrite starts a branch, as the template does). */
  readonly historyPolicy: "append-only" | "keep-reasoning" | "branch";
  readonly stopTokenIds: readonly number[];
  /**
   * Upper bound of token ids in the model (its tokenizer may know fewer or more). A prompt with a
   * greater or equal id is an `AttributedError` at boundary "renderer" with code
   * "token-beyond-vocabulary": real servers crash on one.
   */
  readonly vocabularySize: number;
  /**
   * Variables that the chat template gets beside the conversation, for the records of a run.
   * @default none
   */
  readonly templateKwargs?: JsonObject;
  /**
   * The same renderer with further template variables, which replace its own. Variables that the
   * template does not read, and those that it always gets, are omitted and named in `unread`.
   * @default variables cannot be changed
   */
  withTemplateKwargs?(kwargs: JsonObject): { readonly renderer: Renderer; readonly unread: readonly string[] };
  /** Parsers that read actions, for the records of a run. */
  readonly parsers: ParserFacts;
  renderPrompt(messages: readonly Message[], tools: readonly Tool[]): RenderedPrompt;
  bridge(input: BridgeInput): BridgeResult;
  /**
   * Both methods in steps, for conversations that may be very long: other work runs between two
   * steps. @default one step
   */
  readonly inSteps?: {
    renderPrompt(messages: readonly Message[], tools: readonly Tool[]): Steps<RenderedPrompt>;
    bridge(input: BridgeInput): Steps<BridgeResult>;
  };
  /**
   * Parses an action; never throws on model output. `turn` is part of the call ids. `unknownTools`
   * is the side that answers a call of a tool that is not in `tools`: for "environment" it is read
   * like every other call; for "loop", the default, it is a problem instead of a call, as in
   * SGLang. `textEnd`: only so many characters of the decoded action are read, as if it had no
   * others (default: all).
   */
  parseAction(
    sampledTokens: Uint32Array,
    options: {
      readonly tools: readonly Tool[];
      readonly turn: number;
      readonly unknownTools?: "environment" | "loop";
      readonly textEnd?: number;
    },
  ): ParsedAction;
  /**
   * Text that closes the thinking of a text that ends inside it, such as "\n</think>\n\n"; "" for
   * any other text. History and bridge need it: the template would take the rest of an unclosed
   * thought for an answer. @default ""
   */
  unclosedThought?(text: string): string;
  /**
   * Number of characters at the end of the reasoning or content of an unfinished action that may
   * still turn out to be neither, because a call or the end of a thought may begin there.
   * @default not known: a stream is shown late
   */
  heldBack?(text: string): number;
  /** Forms of an action, for constraints. @default absent: actions cannot be constrained */
  actionForms?(tools: readonly Tool[]): Promise<ActionForms>;
  decode(tokens: ArrayLike<number>): string;
  /**
   * Decodes an action while it is sampled. @default absent: all of it is decoded again for every
   * token
   */
  startDecoding?(): IncrementalDecoder;
}
