// What a tool-call parser is, and how one is made out of a format. In text mode a parser gives exactly what SGLang's
// parser of the same name gives, so training reads a policy as serving will read it; what SGLang drops in silence is
// reported beside that result, never mixed into it. Syntax only: schemas are judged in `agents/`.

import type { Tool } from "../core/index.ts";
import type { FormatHints } from "./format-hints.ts";
import { pythonExceptionType } from "../python-semantics/index.ts";
import { repairCalls } from "./repair/repair-calls.ts";
import { ToolCallScan } from "./tool-call-scan.ts";
import type { ToolCallParse } from "./tool-call-parse.ts";
import { toolTable } from "./tool-table.ts";

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

/** Reads tool calls out of sampled text. Never throws on text. */
export interface ToolCallParser {
  /** As SGLang names it in `--tool-call-parser`. */
  readonly name: string;
  /** Texts that open, close or separate calls; a tokenizer may have some of them as single tokens. */
  readonly markers: readonly string[];
  /** What streaming and repair need to know. */
  readonly hints: FormatHints;
  /** SGLang's quick test; it alone decides its finish reason "tool_calls". */
  hasToolCall(text: string): boolean;
  parse(text: string, options: ToolCallParseOptions): ToolCallParse;
}

/** One syntax of tool calls: what a new format has to say. */
export type ToolCallFormat = {
  readonly name: string;
  readonly markers: readonly string[];
  readonly hints: FormatHints;
  hasToolCall(text: string): boolean;
  /**
   * Adds calls and problems to `scan` and returns the text beside the calls. May throw a `PythonError` or let a
   * `JsonSyntaxError` pass where the reference lets an exception out; calls added before it are dropped.
   */
  detect(text: string, scan: ToolCallScan): string;
};

export function createToolCallParser(format: ToolCallFormat): ToolCallParser {
  return {
    name: format.name,
    markers: format.markers,
    hints: format.hints,
    hasToolCall: (text) => format.hasToolCall(text),
    parse: (text, options) => {
      const read = (candidate: string): ToolCallParse => parseStrictly(format, candidate, options);
      return options.repair === true ? repairCalls(text, format.hints, read) : read(text);
    },
  };
}

function parseStrictly(format: ToolCallFormat, text: string, options: ToolCallParseOptions): ToolCallParse {
  const scan = new ToolCallScan(toolTable(options.tools), options.forwardUnknownTools ?? false);
  let detectorNormalText: string;
  try {
    detectorNormalText = format.detect(text, scan);
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
