// Reasoning parsers by the names that only vLLM 0.33.0 has, read as its `extract_reasoning` reads a
// whole text with the server's defaults. Text that vLLM drops is dropped here, too: what precedes
// the first opening tag, for example. Streaming shows only what no later text can change.

import { verbatim } from "../../python-semantics/index.ts";
import {
  type ReasoningOptions,
  type ReasoningParser,
  type ReasoningSplit,
  type ReasoningStep,
  restStep,
  silentStep,
} from "../reasoning-parser.ts";
import { beginningOfOne } from "../text-pieces.ts";
import { plamoMarkers, plamoTags, withoutOpenMarker } from "./plamo-markers.ts";

const think = "<think>";
const thinkEnd = "</think>";

const unsplit = (text: string): ReasoningSplit => ({ reasoning: "", normalText: text });

/** Reasoning from the first opening tag, or from the beginning without one, to the first closing tag after it. */
function splitThought(text: string, start: string, end: string): ReasoningSplit {
  const opening = text.indexOf(start);
  const inside = opening === -1 ? text : text.slice(opening + start.length);
  const closing = inside.indexOf(end);
  return closing === -1
    ? { reasoning: inside, normalText: "" }
    : { reasoning: inside.slice(0, closing), normalText: inside.slice(closing + end.length) };
}

/**
 * Nothing is certain before the opening tag: it drops all text before it, even a closing tag.
 * `restIsSure` is false if the rest depends on its own end.
 */
function thoughtStep(restIsSure: boolean): ReasoningStep {
  let mode: "before" | "reasoning" | "rest" = "before";
  let held = "";
  return {
    push: (piece) => {
      if (mode === "rest") return { reasoning: "", rest: restIsSure ? piece : "" };
      held += piece;
      if (mode === "before") {
        const opening = held.indexOf(think);
        if (opening === -1) {
          held = held.slice(held.length - beginningOfOne(held, held.length, [think]));
          return { reasoning: "", rest: "" };
        }
        held = held.slice(opening + think.length);
        mode = "reasoning";
      }
      const closing = held.indexOf(thinkEnd);
      const stop = closing === -1 ? held.length - beginningOfOne(held, held.length, [thinkEnd]) : closing;
      const reasoning = held.slice(0, stop);
      const rest = closing === -1 || !restIsSure ? "" : held.slice(closing + thinkEnd.length);
      if (closing !== -1) mode = "rest";
      held = closing === -1 ? held.slice(stop) : "";
      return { reasoning, rest };
    },
  };
}

const thoughtParser = (name: string): ReasoningParser => ({
  name,
  markers: [think, thinkEnd],
  hasTags: true,
  split: (text) => splitThought(text, think, thinkEnd),
  startSplitting: () => thoughtStep(true),
});

const response = "<response>";
const responseEnd = "</response>";

/** ERNIE 4.5: only what is between the response tags remains of the rest, if there are both. */
const ernie45Reasoning: ReasoningParser = {
  ...thoughtParser("ernie45"),
  split: (text) => {
    const { reasoning, normalText } = splitThought(text, think, thinkEnd);
    const [start, end] = [normalText.indexOf(response), normalText.lastIndexOf(responseEnd)];
    const isWrapped = start !== -1 && start < end;
    return { reasoning, normalText: isWrapped ? normalText.slice(start + response.length, end) : normalText };
  },
  startSplitting: () => thoughtStep(false),
};

// Hunyuan 3 and 4: the first tag states the suffix that a checkpoint adds to all its tags.

const suffixedTag = /<\/?think(:[\w-]{1,64})?>/;

function splitSuffixed(text: string): ReasoningSplit {
  const suffix = suffixedTag.exec(text)?.[1] ?? "";
  return splitThought(text, `<think${suffix}>`, `</think${suffix}>`);
}

/** The server splits only if the request states an effort; its template then opens the reasoning. */
const hyV3Reasoning: ReasoningParser = {
  name: "hy_v3",
  markers: [think, thinkEnd],
  hasTags: true,
  split: (text, { forceReasoning = false }: ReasoningOptions = {}) =>
    forceReasoning ? splitSuffixed(text) : unsplit(text),
  startSplitting: ({ forceReasoning = false } = {}) => (forceReasoning ? silentStep : restStep("")),
};

const hyV4Reasoning: ReasoningParser = {
  name: "hy_v4",
  markers: [think, thinkEnd],
  hasTags: true,
  split: splitSuffixed,
  startSplitting: () => silentStep,
};

const thoughtLine = "<think>\n";
const answerLines = "\n</think>\n<answer>\n";
const answerEnd = "\n</answer>";
/** The server compares the answer's end with its own expression, which has no line feed. */
const spelledAnswerEnd = String.raw`\n</answer>`;

/** Hunyuan A13B: thought and answer, each between lines of their own; other text is the answer. */
const hunyuanA13bReasoning: ReasoningParser = {
  name: "hunyuan_a13b",
  markers: [think, thinkEnd],
  hasTags: true,
  split: (text) => {
    const end = text.indexOf(answerEnd);
    const opening = text.indexOf(thoughtLine);
    const start = opening + thoughtLine.length;
    const middle = opening === -1 ? -1 : text.indexOf(answerLines, start);
    const reasoning = middle === -1 ? "" : text.slice(start, middle);
    const from = middle + answerLines.length;
    if (end !== -1) {
      const last = middle === -1 || opening !== 0 ? -1 : text.indexOf(answerEnd, from);
      return last === -1 ? unsplit(text.slice(0, end)) : { reasoning, normalText: text.slice(from, last) };
    }
    if (middle === -1) return unsplit(text);
    const answer = text.slice(from);
    const stop = answer.endsWith(spelledAnswerEnd) ? answer.length - spelledAnswerEnd.length : answer.length;
    return { reasoning, normalText: answer.slice(0, stop) };
  },
  startSplitting: () => silentStep,
};

const graniteThought = /Here(?:'s| is) my thought process:/;
const graniteAnswer = /Here(?:'s| is) my response:/;

/** Granite 3.2: sentences in place of tags; without both of them nothing is reasoning. */
const graniteReasoning: ReasoningParser = {
  name: "granite",
  markers: ["Here is my thought process:", "Here is my response:"],
  hasTags: false,
  split: (text) => {
    const opening = graniteThought.exec(text);
    if (opening === null) return unsplit(text);
    const inside = text.slice(opening.index + opening[0].length);
    const answer = graniteAnswer.exec(inside);
    if (answer === null) return unsplit(text);
    return { reasoning: inside.slice(0, answer.index), normalText: inside.slice(answer.index + answer[0].length) };
  },
  startSplitting: () => silentStep,
};

/** OLMo 3: the opening tag may be missing, but without a closing one nothing is reasoning. */
const olmo3Reasoning: ReasoningParser = {
  name: "olmo3",
  markers: [think, thinkEnd],
  hasTags: true,
  split: (text) => {
    const closing = text.indexOf(thinkEnd);
    if (closing === -1) return unsplit(text);
    const start = text.startsWith(think) ? think.length : 0;
    return { reasoning: text.slice(start, closing), normalText: text.slice(closing + thinkEnd.length) };
  },
  startSplitting: () => silentStep,
};

// Formats of vLLM's state machine over markers: a text begins inside its reasoning.

type Place = "reasoning" | "content";
type Machine = {
  readonly markers: readonly string[];
  /** Where a marker leads, and whether it is shown there. A new function for each text. */
  readonly start: () => (place: Place, marker: string) => { readonly to: Place; readonly isShown: boolean };
  /** The reasoning without what the server cuts off its end; the rest of it is certain. */
  readonly finish: (reasoning: string) => string;
};

/** Reads a text in pieces; `hold` keeps back what may become a marker. */
function machineReader({ markers, start }: Machine) {
  const marker = new RegExp(markers.map(verbatim).join("|"), "g");
  const step = start();
  let place: Place = "reasoning";
  let held = "";
  return (piece: string, hold: boolean): Readonly<Record<Place, string>> => {
    held += piece;
    const said = { reasoning: "", content: "" };
    let at = 0;
    for (const { 0: token, index } of held.matchAll(marker)) {
      said[place] += held.slice(at, index);
      at = index + token.length;
      const { to, isShown } = step(place, token);
      place = to;
      if (isShown) said[place] += token;
    }
    const end = held.length - (hold ? beginningOfOne(held, held.length, markers) : 0);
    said[place] += held.slice(at, Math.max(at, end));
    held = held.slice(Math.max(at, end));
    return said;
  };
}

function machineParser(name: string, tags: readonly string[], machine: Machine): ReasoningParser {
  return {
    name,
    markers: tags,
    hasTags: true,
    split: (text) => {
      const { reasoning, content } = machineReader(machine)(text, false);
      return { reasoning: machine.finish(reasoning), normalText: content };
    },
    startSplitting: () => {
      const read = machineReader(machine);
      let unsure = "";
      return {
        push: (piece) => {
          const { reasoning, content } = read(piece, true);
          const sure = machine.finish(unsure + reasoning);
          unsure = (unsure + reasoning).slice(sure.length);
          return { reasoning: sure, rest: content };
        },
      };
    },
  };
}

const toolCall = "<tool_call>";
const reserved = [12, 13, 14, 15].flatMap((index) => [`<reserved_${index}>`, `<|reserved_${index}|>`]);

/** MiniCPM-V: a call ends the reasoning; tokens that carry no text are dropped. */
const minicpmvReasoning = machineParser("minicpmv", [think, thinkEnd], {
  markers: [think, thinkEnd, toolCall, "<|im_end|>", ...reserved],
  start: () => (place, marker) => {
    if (marker === toolCall) return { to: "content", isShown: true };
    if (marker === thinkEnd) return { to: "content", isShown: false };
    return { to: place, isShown: marker === think && place === "content" };
  },
  finish: (reasoning) => reasoning,
});

/** PLaMo 3: the end of the turn is shown only where it ends calls. */
const plamo3Reasoning = machineParser("plamo3", [plamoTags.thought, plamoTags.thoughtEnd], {
  markers: plamoMarkers,
  start: () => {
    let isInCalls = false;
    return (place, marker) => {
      if (marker === plamoTags.thought) return { to: "reasoning", isShown: false };
      if (marker === plamoTags.thoughtEnd) return { to: "content", isShown: false };
      const isEnd = marker === plamoTags.turnEnd;
      const isShown = !isEnd || isInCalls;
      if (marker === plamoTags.requests) isInCalls = true;
      if (marker === plamoTags.requestsEnd || isEnd) isInCalls = false;
      return { to: isEnd || marker === plamoTags.requests ? "content" : place, isShown };
    };
  },
  finish: withoutOpenMarker,
});

/** The parsers by their names. */
export const vllmReasoning: ReadonlyMap<string, ReasoningParser> = new Map(
  [
    ...[ernie45Reasoning, graniteReasoning, hunyuanA13bReasoning, hyV3Reasoning, hyV4Reasoning, minicpmvReasoning],
    ...[olmo3Reasoning, plamo3Reasoning, thoughtParser("holo2"), thoughtParser("step5")],
  ].map((parser) => [parser.name, parser]),
);
