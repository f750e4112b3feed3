// The contract of tool-call parsers. In text mode a parser returns exactly the result of SGLang's
// parser of the same name, so training reads a policy as serving will; parts that SGLang drops
// silently are reported beside that result, never mixed into it. Syntax only: schemas are validated
// in `agents/`.

import type { ParseProblem, Tool } from "../core/index.ts";
import type { DetectedCall } from "./tool-call-scan.ts";

export type ToolCallParse = {
  /**
   * Content as SGLang returns it: truncated as soon as the text announces a call, even if no call
   * was read.
   */
  readonly normalText: string;
  /**
   * Text outside the calls as the format splits it; the whole text, untrimmed, if no call was read.
   * No text is lost.
   */
  readonly content: string;
  readonly calls: readonly DetectedCall[];
  /**
   * Class of the Python exception that SGLang does not catch, in which case `calls` is empty.
   * `null` if none.
   */
  readonly raised: string | null;
  /** Normal text of the format even if no call was read; `null` if an exception escaped. */
  readonly detectorNormalText: string | null;
  /** Problems in the order of the text. */
  readonly problems: readonly ParseProblem[];
};

export type ToolCallParseOptions = {
  readonly tools: readonly Tool[];
  /** Accepts calls of unknown tools, as SGLANG_FORWARD_UNKNOWN_TOOLS does. Default false. */
  readonly forwardUnknownTools?: boolean;
  /**
   * Recovers calls from near misses, each reported as the problem "repaired". Default false, which
   * is SGLang's reading. The result is the same either way for text that is read without a problem
   * and whose arguments are all objects. Not for truncated text: an unfinished call could be
   * completed.
   */
  readonly repair?: boolean;
};

/**
 * Facts about a format that streaming and repair use beyond its strict reading; finished text is
 * read without them.
 */
export type FormatHints = {
  /**
   * Strings from the first of which on the text may turn out to be a call; streaming shows no more
   * of it until the end.
   */
  readonly contentEnd: readonly string[];
  /** The same, but only at the beginning of the text. */
  readonly contentEndAtStart: readonly string[];
  /**
   * Strings after which a call may be complete: streaming looks for calls there. Empty: calls come
   * at the end.
   */
  readonly callEnds: readonly string[];
  /**
   * Parts of a call, outermost first, each opening with its closing: repair adds those that are
   * missing at the end of the text.
   */
  readonly nesting: Readonly<Record<string, string>>;
  /**
   * Moves tags to the positions that strict reading requires; `null` for formats that accept them
   * anywhere.
   */
  readonly straighten: ((text: string) => string) | null;
};

/** Reads tool calls from sampled text. Never throws on text. */
export interface ToolCallParser {
  /** Name in SGLang's `--tool-call-parser`. */
  readonly name: string;
  /** Strings that open, close or separate calls; a tokenizer may have some of them as single tokens. */
  readonly markers: readonly string[];
  readonly hints: FormatHints;
  /** SGLang's quick test; only this test decides its finish reason "tool_calls". */
  hasToolCall(text: string): boolean;
  parse(text: string, options: ToolCallParseOptions): ToolCallParse;
}
