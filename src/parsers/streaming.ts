// Reads sampled text while it is still being sampled. The result is that of the whole text, always; what is shown on the way
// is as much of it as is certain. Not a second reading of the formats: it cuts the stream where content may end, and has
// calls read by the format itself.

import { pythonLstrip, pythonRstrip } from "../python-semantics/index.ts";
import type { ReasoningOptions, ReasoningParser } from "./reasoning-parsers.ts";
import { beginningOfOne } from "./text-pieces.ts";
import type { ToolCallParse, ToolCallParseOptions, ToolCallParser } from "./tool-call-parser.ts";
import type { DetectedCall } from "./tool-call-scan.ts";

export type ParseDelta =
  | { readonly type: "text" | "reasoning"; readonly text: string }
  /** `index` counts calls from 0. */
  | { readonly type: "call-start"; readonly index: number; readonly name: string | null }
  | { readonly type: "call-arguments"; readonly index: number; readonly text: string };

export type StreamingOptions = ToolCallParseOptions &
  ReasoningOptions & {
    readonly toolCallParser: ToolCallParser;
    /** `null`: nothing is split off. */
    readonly reasoningParser: ReasoningParser | null;
  };

export type StreamedParse = {
  readonly reasoning: string;
  readonly parse: ToolCallParse;
  /** What was held back and still has to be shown. */
  readonly deltas: readonly ParseDelta[];
  /** False when something shown is not in the result: formats drop all calls for one bad one, and words before a late reasoning tag turn into reasoning. Then only the result counts. */
  readonly isAsShown: boolean;
};

/**
 * One text on its way through the parsers.
 *
 * Promised: whatever the pieces, `finish` gives what the parsers give for the whole text, and the deltas, joined by kind,
 * are the same. If `isAsShown`, they join to the result: reasoning, `normalText` without white space at its beginning, and
 * every call's name and arguments. No delta of `push` holds a marker of the format or a beginning of one.
 * Not promised: when deltas come. A call comes once it is complete, its arguments in one piece; calls of formats that
 * mark no end, and calls close behind others, come with `finish`. Problems come with `finish` only.
 */
export interface StreamingParser {
  push(text: string): readonly ParseDelta[];
  /** Call it once; nothing may be pushed afterwards. */
  finish(): StreamedParse;
}

export function startParsing(options: StreamingOptions): StreamingParser {
  const { toolCallParser, reasoningParser } = options;
  const { contentEnd, contentEndAtStart, callEnds } = toolCallParser.hints;
  // Repair may change any text that has problems, so no call is sure before the end.
  const early = options.repair === true ? [] : callEnds;
  const pieces: string[] = [];
  const reasoningStage = reasoningParser?.startSplitting(options);
  const words = new WordsStage({ ends: contentEnd, endsAtStart: contentEndAtStart });
  const callStage = new CallStage<DetectedCall>(early, (text) => toolCallParser.parse(text, options).calls);
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
      return show(reasoning, words.push(rest), callStage.push(rest));
    },
    finish: () => {
      const whole = pieces.join("");
      const { reasoning, normalText } = reasoningParser?.split(whole, options) ?? { reasoning: "", normalText: whole };
      const parse = toolCallParser.parse(normalText, options);
      const text = pythonLstrip(parse.normalText);
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

/** The next look waits until the text is this much longer; 1.25 bounds all looks by five readings of the text. */
const growth = 1.25;

/**
 * Finds calls in a stream of text where a call may be complete. Each look reads the text from its beginning, so looks become
 * rarer as the text grows: together they cost a few times one reading, and what is missed comes at the end.
 */
class CallStage<Call> {
  readonly #ends: readonly string[];
  readonly #read: (text: string) => readonly Call[];
  readonly #pieces: string[] = [];
  #length = 0;
  #tail = "";
  #lastLook = 0;
  #count = 0;

  /** `read` gives the calls of a text; `ends` are what may complete one. */
  constructor(ends: readonly string[], read: (text: string) => readonly Call[]) {
    this.#ends = ends;
    this.#read = read;
  }

  /** The calls that were not known before `piece` came. */
  push(piece: string): readonly Call[] {
    if (this.#ends.length === 0 || piece === "") return [];
    this.#pieces.push(piece);
    this.#length += piece.length;
    const window = this.#tail + piece;
    const offset = this.#length - window.length;
    const found: Call[] = [];
    for (const end of endsIn(window, this.#ends)) {
      if (offset + end < this.#lastLook * growth) continue;
      this.#lastLook = offset + end;
      const text = this.#pieces.join("");
      this.#pieces.splice(0, this.#pieces.length, text);
      const calls = this.#read(text.slice(0, this.#lastLook));
      for (const call of calls.slice(this.#count)) found.push(call);
      this.#count = Math.max(this.#count, calls.length);
    }
    const length = beginningOfOne(window, window.length, this.#ends);
    this.#tail = window.slice(window.length - length);
    return found;
  }
}

/** Where markers end in a text, in order. */
function endsIn(text: string, markers: readonly string[]): readonly number[] {
  const ends: number[] = [];
  for (const marker of markers) {
    for (let at = text.indexOf(marker); at !== -1; at = text.indexOf(marker, at + 1)) ends.push(at + marker.length);
  }
  return ends.sort((left, right) => left - right);
}

/** Beginnings held back in a row: Trinity deletes its two thinking tags, so that `<tool</th<think>ink>_call>` is one marker. */
const heldLinks = 3;

type WordsStageOptions = {
  /** From the first of these on nothing is shown. */
  readonly ends: readonly string[];
  /** The same where one of them is the very beginning. */
  readonly endsAtStart: readonly string[];
};

class WordsStage {
  readonly #ends: readonly string[];
  readonly #endsAtStart: readonly string[];
  /** White space behind what was shown; kept apart, so that a long run is not searched again with every piece. */
  #blanks: string[] = [];
  /** Not shown yet: beginnings of ends, so never long. */
  #held = "";
  #hasBegun = false;
  #hasShown = false;
  #isOver = false;

  constructor({ ends, endsAtStart }: WordsStageOptions) {
    this.#ends = ends;
    this.#endsAtStart = endsAtStart;
  }

  /** True once an end was seen. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** What can be shown now that `piece` has come; never white space at the beginning or at the end of all that is shown. */
  push(piece: string): string {
    if (this.#isOver || piece === "") return "";
    if (!this.#hasBegun) {
      this.#hasBegun = true;
      if (this.#endsAtStart.some((end) => piece.startsWith(end))) {
        this.#isOver = true;
        return "";
      }
    }
    const text = this.#held + piece;
    const found = this.#ends.map((end) => text.indexOf(end)).filter((at) => at !== -1);
    const limit = found.length === 0 ? text.length : Math.min(...found);
    let sureEnd = limit;
    for (let link = found.length === 0 ? 0 : 1; link < heldLinks; link++) {
      sureEnd -= beginningOfOne(text, sureEnd, this.#ends);
    }
    const sure = text.slice(0, sureEnd);
    this.#isOver = found.length > 0;
    this.#held = text.slice(sure.length);
    return this.#show(sure);
  }

  #show(sure: string): string {
    const words = pythonRstrip(sure);
    const blank = sure.slice(words.length);
    if (words === "") {
      if (this.#hasShown) this.#blanks.push(blank);
      return "";
    }
    const shown = this.#hasShown ? this.#blanks.join("") + words : pythonLstrip(words);
    this.#blanks = [blank];
    this.#hasShown = true;
    return shown;
  }
}
