// What a tool-call parser is, and how one is made out of a format. In text mode a parser gives exactly what SGLang's
// parser of the same name gives, so training reads a policy as serving will read it; what SGLang drops silently is
// reported beside that result, never mixed into it. Syntax only: schemas are validated in `agents/`.

import type { ParseProblem, Tool } from "../core/index.ts";
import { pythonExceptionType } from "../python-semantics/index.ts";
import { repairCalls } from "./repair.ts";
import { type DetectedCall, ToolCallScan } from "./tool-call-scan.ts";

export type ToolCallParse = {
  /** Text beside the calls as the format cuts it; the whole text, untrimmed, when no call came out. */
  readonly normalText: string;
  readonly calls: readonly DetectedCall[];
  /** Class of the Python exception that SGLang lets out; then there are no calls. `null`: none. */
  readonly raised: string | null;
  /** The format's own cut even where no call came out; `null` when an exception escaped. */
  readonly detectorNormalText: string | null;
  /** In the order of the text. */
  readonly problems: readonly ParseProblem[];
};

export type ToolCallParseOptions = {
  readonly tools: readonly Tool[];
  /** Let calls of unknown tools through, as SGLANG_FORWARD_UNKNOWN_TOOLS does. Default false. */
  readonly forwardUnknownTools?: boolean;
  /**
   * Recover calls from near-misses, each reported as the problem "repaired". Default false, which is SGLang's reading. Text
   * that is read without a problem, every call's arguments an object, comes out the same either way. Not for text that was
   * cut off: a call could be completed that was never finished.
   */
  readonly repair?: boolean;
};

/** What streaming and repair know about a format beyond its strict reading; finished text is read without it. */
export type FormatHints = {
  /** From the first of these on, text may turn out to be a call; streaming shows no more of it until the end. */
  readonly contentEnd: readonly string[];
  /** The same, but only where it begins the text. */
  readonly contentEndAtStart: readonly string[];
  /** Behind each of these a call may be complete: streaming looks for calls there. Empty: calls come at the end. */
  readonly callEnds: readonly string[];
  /** What a call consists of, outermost first: repair adds what is missing at the end of the text. */
  readonly nesting: readonly (readonly [opening: string, closing: string])[];
  /** Puts tags where strict reading requires them; `null` for formats that take them anywhere. */
  readonly straighten: ((text: string) => string) | null;
};

/** Reads tool calls out of sampled text. Never throws on text. */
export interface ToolCallParser {
  /** As SGLang names it in `--tool-call-parser`. */
  readonly name: string;
  /** Strings that open, close or separate calls; a tokenizer may have some of them as single tokens. */
  readonly markers: readonly string[];
  readonly hints: FormatHints;
  /** SGLang's quick test; it alone decides its finish reason "tool_calls". */
  hasToolCall(text: string): boolean;
  parse(text: string, options: ToolCallParseOptions): ToolCallParse;
}

/** One syntax of tool calls: what a new format has to say. */
export type ToolCallFormat = {
  readonly name: string;
  readonly markers: readonly string[];
  /** Default: content ends at `opening`, calls come at the end, nothing is repaired. */
  readonly hints?: Partial<FormatHints>;
  /** Text without it holds no call, and `detect` is not called. `null`: `detect` is called for every text. */
  readonly opening: string | null;
  /** Default: whether the text includes `opening`. */
  hasToolCall?(text: string): boolean;
  /** Anything raised drops all calls and gives the whole text. Default false: the exception escapes, as the reference's. */
  readonly isAllOrNothing?: boolean;
  /**
   * Adds calls and problems to `scan` and returns the text beside the calls. May throw a `PythonError` or let a
   * `JsonSyntaxError` pass where the reference lets an exception out; calls added before it are dropped. `start` is the
   * first place of `opening`, -1 without one.
   */
  detect(text: string, scan: ToolCallScan, start: number): string;
};

export function createToolCallParser(format: ToolCallFormat): ToolCallParser {
  const { name, markers, opening } = format;
  const contentEnd = opening === null ? [] : [opening];
  const none: FormatHints = { contentEnd, contentEndAtStart: [], callEnds: [], nesting: [], straighten: null };
  const hints = { ...none, ...format.hints };
  return {
    name,
    markers,
    hints,
    hasToolCall: (text) => format.hasToolCall?.(text) ?? text.includes(opening!),
    parse: (text, options) => {
      const read = (candidate: string): ToolCallParse => parseStrictly(format, candidate, options);
      return options.repair === true ? repairCalls(text, hints, read) : read(text);
    },
  };
}

function parseStrictly(format: ToolCallFormat, text: string, options: ToolCallParseOptions): ToolCallParse {
  const scan = new ToolCallScan(options.tools, options.forwardUnknownTools ?? false);
  let detectorNormalText: string;
  try {
    detectorNormalText = detect(format, text, scan);
  } catch (error) {
    const raised = pythonExceptionType(error);
    if (raised === null) throw error;
    return { normalText: text, calls: [], raised, detectorNormalText: null, problems: scan.problems };
  }
  // Without tools the reference does not look for calls at all.
  const calls = options.tools.length === 0 ? [] : scan.calls;
  const normalText = calls.length === 0 ? text : detectorNormalText;
  return { normalText, calls, raised: null, detectorNormalText, problems: scan.problems };
}

function detect(format: ToolCallFormat, text: string, scan: ToolCallScan): string {
  const start = format.opening === null ? -1 : text.indexOf(format.opening);
  if (format.opening !== null && start === -1) return text;
  const read = (): string => format.detect(text, scan, start);
  return format.isAllOrNothing === true ? scan.allOrNothing(text, read) : read();
}
