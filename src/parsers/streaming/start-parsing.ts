// Reads sampled text while it is still being sampled. The result is that of the whole text, always; what is shown on the way
// is as much of it as can be told. Not a second reading of the formats: it cuts the stream where words may end, and has
// calls read by the format itself.

import { pythonLstrip } from "../../python-semantics/index.ts";
import type { ReasoningOptions, ReasoningParser } from "../reasoning-parser.ts";
import type { ToolCallParse } from "../tool-call-parse.ts";
import type { ToolCallParseOptions, ToolCallParser } from "../tool-call-parser.ts";
import type { DetectedCall } from "../tool-call-scan.ts";
import { CallStage } from "./call-stage.ts";
import { restStage } from "./reasoning-stage.ts";
import { WordsStage } from "./words-stage.ts";

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
  const { wordsEnd, wordsEndAtStart, callEnds } = toolCallParser.hints;
  // Repair may change any text that has problems, so no call is sure before the end.
  const early = options.repair === true ? [] : callEnds;
  const pieces: string[] = [];
  const reasoningStage = reasoningParser?.startSplitting(options) ?? restStage();
  const words = new WordsStage({ ends: wordsEnd, endsAtStart: wordsEndAtStart });
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
      const { reasoning, rest } = reasoningStage.push(piece);
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
