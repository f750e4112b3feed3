// Construction of a tool-call parser from a format: the early exits, exceptions and defaults that
// formats share.

import { pythonExceptionType } from "../python-semantics/index.ts";
import { repairCalls } from "./repair.ts";
import type { FormatHints, ToolCallParse, ToolCallParseOptions, ToolCallParser } from "./tool-call-parser.ts";
import { guessName, ToolCallScan } from "./tool-call-scan.ts";

/** Definition of one syntax of tool calls. */
export type ToolCallFormat = {
  readonly name: string;
  readonly markers: readonly string[];
  /**
   * Default: content ends at `opening`, a call with the first closing of `nesting`, and nothing is
   * repaired.
   */
  readonly hints?: Partial<FormatHints>;
  /**
   * Text without this string has no call, and `detect` is not called. `null`: `detect` is called
   * for every text.
   */
  readonly opening: string | null;
  /**
   * Further strings that occur only in calls: text with one of them, or with an opening of
   * `nesting`, is reported if it yields no call. Default: none.
   */
  readonly signs?: readonly string[];
  /** Default: whether the text includes `opening`. */
  hasToolCall?(text: string): boolean;
  /** Normal text of a text that announces no call. Default: the text itself. */
  plainText?(text: string): string;
  /**
   * Reads calls even if no tools are declared. Default false: such text is content, with or without
   * calls.
   */
  readonly readsWithoutTools?: boolean;
  /**
   * Any exception drops all calls and returns the whole text. Default false: the exception escapes,
   * as in the reference.
   */
  readonly isAllOrNothing?: boolean;
  /**
   * Adds calls and problems to `scan` and returns the text outside the calls. May throw a
   * `PythonError` or pass on a `JsonSyntaxError` where the reference raises; calls added before it
   * are dropped. `start` is the first position of `opening`, -1 without one.
   */
  detect(text: string, scan: ToolCallScan, start: number): string;
};

export function createToolCallParser(format: ToolCallFormat): ToolCallParser {
  const { name, markers, opening } = format;
  const contentEnd = opening === null ? [] : [opening];
  const nesting = format.hints?.nesting ?? {};
  const callEnds = Object.values(nesting)
    .slice(0, 1)
    .filter((closing) => closing !== "");
  const hints = { contentEnd, contentEndAtStart: [], callEnds, nesting, straighten: null, ...format.hints };
  const signs = [
    ...(opening === null ? [] : [opening]),
    ...(format.signs ?? []),
    ...Object.keys(nesting).filter(isTag),
  ];
  const strict = { ...format, signs };
  return {
    name,
    markers,
    hints,
    hasToolCall: (text) => hasToolCall(format, text),
    parse: (text, options) => {
      const read = (candidate: string): ToolCallParse => parseStrictly(strict, candidate, options);
      return options.repair === true ? repairCalls(text, hints, read) : read(text);
    },
  };
}

/** Other openings, such as the fence of JSON, also occur in texts without a call. */
const isTag = (opening: string): boolean => /^[<\][]./.test(opening);

function parseStrictly(format: ToolCallFormat, text: string, options: ToolCallParseOptions): ToolCallParse {
  const scan = new ToolCallScan(options.tools, options.forwardUnknownTools ?? false);
  let detectorNormalText: string;
  try {
    detectorNormalText = detect(format, text, scan);
  } catch (error) {
    const raised = pythonExceptionType(error);
    if (raised === null) throw error;
    return {
      normalText: text,
      content: text,
      calls: [],
      raised,
      detectorNormalText: null,
      problems: scan.problems,
    };
  }
  // Without tools the reference does not search for calls, in most formats.
  const hasTools = options.tools.length > 0 || format.readsWithoutTools === true;
  const calls = hasTools ? scan.calls : [];
  const isCut = hasTools && (calls.length > 0 || hasToolCall(format, text));
  const normalText = isCut ? detectorNormalText : (format.plainText?.(text) ?? text);
  const content = calls.length === 0 ? text : detectorNormalText;
  if (hasTools && calls.length === 0 && scan.problems.length === 0) reportLostCall(format, { text, isCut, scan });
  return { normalText, content, calls, raised: null, detectorNormalText, problems: scan.problems };
}

const hasToolCall = (format: ToolCallFormat, text: string): boolean =>
  format.hasToolCall?.(text) ?? text.includes(format.opening!);

type LostCall = { readonly text: string; readonly isCut: boolean; readonly scan: ToolCallScan };

/**
 * Reports a text that announces a call, or opens a part of one, and yields none, if the format
 * itself did not report the reason.
 */
function reportLostCall({ signs = [] }: ToolCallFormat, { text, isCut, scan }: LostCall): void {
  const places = signs.map((sign) => text.indexOf(sign)).filter((at) => at !== -1);
  if (places.length === 0 && !isCut) return;
  const source = places.length === 0 ? text : text.slice(Math.min(...places));
  scan.report("unterminated-call", source, "The text opens a call and holds none that can be read.", guessName(source));
}

function detect(format: ToolCallFormat, text: string, scan: ToolCallScan): string {
  const start = format.opening === null ? -1 : text.indexOf(format.opening);
  if (format.opening !== null && start === -1) return text;
  const read = (): string => format.detect(text, scan, start);
  return format.isAllOrNothing === true ? scan.allOrNothing(text, read) : read();
}
