import type { Message, ToolCall } from "./message.ts";
import type { Tool } from "./tool.ts";

/** Where a message stands in rendered tokens: `[start, end)`. */
export type MessageSpan = { readonly message: number; readonly start: number; readonly end: number };

export type RenderedPrompt = {
  readonly tokens: Uint32Array;
  readonly text: string;
  /** One per message, in order; what belongs to none (the generation prompt) is in no span. */
  readonly spans: readonly MessageSpan[];
  /** Control tokens that users and tools spelled out, and that are text in `tokens`. */
  readonly spelledTokens: number;
};

/** What a parser found wrong with sampled output. Syntax only: whether a call fits its tool's schema is judged in `agents/`. */
export type ParseProblem = {
  readonly code:
    | "not-json"
    | "not-an-object"
    | "no-name"
    | "unknown-tool"
    | "unterminated-call"
    | "spoofed-marker"
    /** A near-miss was read as the call it nearly is; `detail` says what was done. Only in repair mode, which is opt-in. */
    | "repaired";
  /** The offending text, as sampled. */
  readonly text: string;
  /** Name of the tool that was asked for, when it could be read. */
  readonly toolName: string | null;
  readonly detail: string;
};

/** Sampled output, read. */
export type ParsedAction = {
  /** The whole action, decoded, without its end token. */
  readonly text: string;
  readonly reasoning: string | null;
  /** The words beside reasoning and calls. When no call came out: all beside reasoning, so that nothing a policy said is lost. */
  readonly content: string;
  readonly toolCalls: readonly ToolCall[];
  readonly problems: readonly ParseProblem[];
  /** True when the action ended with a stop token, or at a stop string of the request; false when it was cut off. */
  readonly isTerminated: boolean;
};

/** What a bridge starts from: the history up to and including the last action. */
export type BridgeInput = {
  /** The whole history, the last action included as its last message. */
  readonly messages: readonly Message[];
  readonly tools: readonly Tool[];
  /** The ids of the last action. */
  readonly lastAction: Uint32Array;
  /** What came since: all tool results of the turn together, or the user's words. */
  readonly newMessages: readonly Message[];
};

/**
 * Where appended tokens are not what the template writes, however history is treated. "other-end-token": the action ended with
 * a stop token that the template does not write there (`<|endoftext|>` where it writes `<|im_end|>`); what the template writes
 * follows it.
 */
export type TemplateDeviation = "other-end-token";

export type BridgeResult =
  /** Append these after the last action; the result ends with the generation prompt. */
  | {
      readonly type: "extended";
      readonly tokens: Uint32Array;
      /** As in `RenderedPrompt`, of what is new. */
      readonly spelledTokens: number;
      /** `null`: there is none. */
      readonly deviation: TemplateDeviation | null;
    }
  /** The template rewrites what came before; render anew and start a branch. */
  | { readonly type: "refused"; readonly reason: string };

/** Which parsers read actions, by their names, and how. */
export type ParserFacts = {
  readonly toolCalls: string;
  /** `null`: nothing is split off. */
  readonly reasoning: string | null;
  /** "tokens": a marker counts only as the token it is. "text": as text parsers of servers read it. */
  readonly mode: "tokens" | "text";
  /** Whether near-misses are read as the calls they nearly are. */
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
   * Token ids are below this, as the model has it (its tokenizer may know fewer or more). A prompt with an id beyond it is an
   * `AttributedError` at boundary "renderer" with code "token-beyond-vocabulary": real servers die of one.
   */
  readonly vocabularySize: number;
  /** How actions are read, for the records of a run. */
  readonly parsers: ParserFacts;
  renderPrompt(messages: readonly Message[], tools: readonly Tool[]): RenderedPrompt;
  bridge(input: BridgeInput): BridgeResult;
  /** `turn` numbers the call ids. Never throws on model output. */
  parseAction(
    sampledTokens: Uint32Array,
    options: { readonly tools: readonly Tool[]; readonly turn: number },
  ): ParsedAction;
  decode(tokens: ArrayLike<number>): string;
}
