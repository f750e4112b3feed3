// Reads sampled text while it is still being sampled. The result always equals that of the whole
// text; the streamed part is as much of it as is certain. Not a second reading of the formats: it
// cuts the stream where content may end, and has calls read by the format itself.

import { pythonLstrip, pythonRstrip } from "../python-semantics/index.ts";
import type { ReasoningOptions, ReasoningParser } from "./reasoning-parser.ts";
import { beginningOfOne, stripping } from "./text-pieces.ts";
import type { FormatHints, ToolCallParse, ToolCallParseOptions, ToolCallParser } from "./tool-call-parser.ts";
import type { DetectedCall } from "./tool-call-scan.ts";

export type ParseDelta =
  | { readonly type: "text" | "reasoning"; readonly text: string }
  /** `index` counts calls from 0. */
  | { readonly type: "call-start"; readonly index: number; readonly name: string | null }
  | { readonly type: "call-arguments"; readonly index: number; readonly text: string };

export type StreamingOptions = ToolCallParseOptions &
  ReasoningOptions & {
    readonly toolCallParser: ToolCallParser;
    /** `null`: reasoning is not split off. */
    readonly reasoningParser: ReasoningParser | null;
  };

export type StreamedParse = {
  readonly reasoning: string;
  readonly parse: ToolCallParse;
  /** Deltas that were held back and still have to be shown. */
  readonly deltas: readonly ParseDelta[];
  /**
   * False if a streamed part is not in the result: formats drop all calls for one invalid call, and
   * text before a late reasoning tag turns into reasoning. Then only the result counts.
   */
  readonly isAsShown: boolean;
};

/**
 * Streaming pass of one text through the parsers.
 *
 * Promised: however the text is split, `finish` returns the result of the parsers for the whole
 * text, and the deltas, joined by kind, are the same. If `isAsShown`, they join to the result:
 * reasoning, `content` without white space at its beginning, and the name and arguments of every
 * call. No delta of `push` contains a marker of the format or a beginning of one.
 *
 * Not promised: when deltas come. A call comes once it is complete, its arguments in one piece;
 * calls of formats that do not mark their end, and calls that closely follow others, come with
 * `finish`. Problems come with `finish` only.
 */
export interface StreamingParser {
  push(text: string): readonly ParseDelta[];
  /** Must be called once; nothing may be pushed afterwards. */
  finish(): StreamedParse;
}

export function startParsing(options: StreamingOptions): StreamingParser {
  const { toolCallParser, reasoningParser } = options;
  const { callEnds } = toolCallParser.hints;
  // Repair may change any text that has problems, so no call is certain before the end.
  const early = options.repair === true ? [] : callEnds;
  const pieces: string[] = [];
  const reasoningStage = reasoningParser?.startSplitting(options);
  const showContent = contentStage(toolCallParser.hints);
  const findCalls = callStage(early, (text) => toolCallParser.parse(text, options).calls);
  const shown = { reasoning: [] as string[], text: [] as string[], calls: [] as DetectedCall[] };

  const show = (reasoning: string, text: string, calls: readonly DetectedCall[]): readonly ParseDelta[] => {
    const deltas: ParseDelta[] = [];
    if (reasoning !== "") deltas.push({ type: "reasoning", text: reasoning });
    if (text !== "") deltas.push({ type: "text", text });
    for (const call of calls) {
      const index = shown.calls.push(call) - 1;
      deltas.push({ type: "call-start", index, name: call.name });
      deltas.push({ type: "call-arguments", index, text: call.parameters });
    }
    if (reasoning !== "") shown.reasoning.push(reasoning);
    if (text !== "") shown.text.push(text);
    return deltas;
  };

  return {
    push: (piece) => {
      pieces.push(piece);
      const { reasoning, rest } = reasoningStage?.push(piece) ?? { reasoning: "", rest: piece };
      return show(reasoning, showContent(rest), findCalls(rest));
    },
    finish: () => {
      const whole = pieces.join("");
      const { reasoning, normalText } = reasoningParser?.split(whole, options) ?? { reasoning: "", normalText: whole };
      const parse = toolCallParser.parse(normalText, options);
      const text = pythonLstrip(parse.content);
      const [shownReasoning, shownText] = [shown.reasoning.join(""), shown.text.join("")];
      const isAsShown =
        reasoning.startsWith(shownReasoning) &&
        text.startsWith(shownText) &&
        shown.calls.every((call, index) => isSameCall(call, parse.calls[index]));
      const deltas = isAsShown
        ? show(
            reasoning.slice(shownReasoning.length),
            text.slice(shownText.length),
            parse.calls.slice(shown.calls.length),
          )
        : [];
      return { reasoning, parse, deltas, isAsShown };
    },
  };
}

function isSameCall(left: DetectedCall, right: DetectedCall | undefined): boolean {
  return left.name === right?.name && left.parameters === right.parameters;
}

/** Growth of the text before the next search; 1.25 bounds all searches by five readings of the text. */
const growth = 1.25;

/**
 * Finds calls in a stream of text at places where a call may be complete. Each search reads the
 * text from its beginning, so searches become rarer as the text grows: together they cost a few
 * times one reading, and missed calls come at the end.
 */
function callStage(
  ends: readonly string[],
  read: (text: string) => readonly DetectedCall[],
): (piece: string) => readonly DetectedCall[] {
  const pieces: string[] = [];
  let [length, tail, lastLook, count] = [0, "", 0, 0];
  return (piece) => {
    if (ends.length === 0 || piece === "") return [];
    pieces.push(piece);
    length += piece.length;
    const window = tail + piece;
    const offset = length - window.length;
    const found: DetectedCall[] = [];
    for (const end of endsIn(window, ends)) {
      if (offset + end < lastLook * growth) continue;
      lastLook = offset + end;
      const text = pieces.join("");
      pieces.splice(0, pieces.length, text);
      const calls = read(text.slice(0, lastLook));
      for (const call of calls.slice(count)) found.push(call);
      count = Math.max(count, calls.length);
    }
    tail = window.slice(window.length - beginningOfOne(window, window.length, ends));
    return found;
  };
}

/** Ends of markers in a text, in order. */
function endsIn(text: string, markers: readonly string[]): readonly number[] {
  const ends: number[] = [];
  for (const marker of markers) {
    for (let at = text.indexOf(marker); at !== -1; at = text.indexOf(marker, at + 1)) ends.push(at + marker.length);
  }
  return ends.sort((left, right) => left - right);
}

/**
 * Consecutive beginnings that are held back: Trinity deletes its two thinking tags, so that
 * `<tool</th<think>ink>_call>` is one marker.
 */
const heldLinks = 3;

/** End of the certain part of a text: before a marker, or before text that may become one. */
function sureEndOf(text: string, ends: readonly string[]): { readonly sureEnd: number; readonly isDone: boolean } {
  const found = ends.map((end) => text.indexOf(end)).filter((at) => at !== -1);
  const isDone = found.length > 0;
  let sureEnd = isDone ? Math.min(...found) : text.length;
  for (let link = isDone ? 1 : 0; link < heldLinks; link++) sureEnd -= beginningOfOne(text, sureEnd, ends);
  return { sureEnd, isDone };
}

/**
 * Number of characters at the end of the content or reasoning so far that may turn out to be
 * neither, for callers that read the whole text repeatedly and need no deltas of calls. The same
 * characters are held back by {@link startParsing}.
 */
export function heldBack(
  text: string,
  { contentEnd, contentEndAtStart }: FormatHints,
  reasoning: ReasoningParser | null,
): number {
  if (contentEndAtStart.some((end) => text.startsWith(end) || end.startsWith(text))) return text.length;
  const { sureEnd } = sureEndOf(text, [...contentEnd, ...(reasoning?.markers ?? [])]);
  return text.length - pythonRstrip(text.slice(0, sureEnd)).length;
}

/**
 * Shows content as it comes, and holds back text that may turn out not to be content: the beginning
 * of a marker, white space that may be stripped. Nothing is shown from the first of `ends` on, nor
 * if the text begins with one of `endsAtStart`. Time is linear in the text, however small the
 * pieces are.
 */
function contentStage({ contentEnd: ends, contentEndAtStart: endsAtStart }: FormatHints): (piece: string) => string {
  const strip = stripping();
  /** Text not shown yet: beginnings of ends, so it is never long. */
  let held = "";
  let hasBegun = false;
  let isDone = false;
  return (piece) => {
    if (isDone || piece === "") return "";
    isDone = !hasBegun && endsAtStart.some((end) => piece.startsWith(end));
    hasBegun = true;
    if (isDone) return "";
    const text = held + piece;
    const sure = sureEndOf(text, ends);
    const { sureEnd } = sure;
    isDone = sure.isDone;
    held = text.slice(sureEnd);
    return strip(text.slice(0, sureEnd));
  };
}
