// Cohere's Command A and R7B, as vLLM 0.33.0 reads them with `cohere_melody`: sections of thought,
// answer and calls between markers, text outside of them as an answer until the first section ends,
// and citations in both. One state is kept over all sections of calls, so a call may go on in the
// next one.

import type { ReasoningParser } from "../reasoning-parser.ts";
import { silentStep } from "../reasoning-parser.ts";
import { beginningOfOne } from "../text-pieces.ts";
import { createToolCallParser } from "../tool-call-format.ts";
import { JsonEndFinder } from "./json-end-finder.ts";

const answer = "<|START_RESPONSE|>";
const answerEnd = "<|END_RESPONSE|>";
const thought = "<|START_THINKING|>";
const thoughtEnd = "<|END_THINKING|>";
const calls = "<|START_ACTION|>";
const callsEnd = "<|END_ACTION|>";
const markers = [answer, answerEnd, thought, thoughtEnd, calls, callsEnd];
const marker = /<\|(?:START|END)_(?:RESPONSE|THINKING|ACTION)\|>/g;

type Mode = "answer" | "thought" | "calls" | "nothing";
const modes: Readonly<Record<string, Mode>> = {
  [answer]: "answer",
  [answerEnd]: "nothing",
  [thought]: "thought",
  [thoughtEnd]: "answer",
  [calls]: "calls",
  [callsEnd]: "nothing",
};

export const cohereCommand3 = createToolCallParser({
  name: "cohere_command3",
  markers,
  hints: { contentEnd: ["<|", "<co"], callEnds: [callsEnd], nesting: { [calls]: callsEnd } },
  opening: null,
  hasToolCall: (text) => text.includes(calls),
  plainText: (text) => readSections(text).texts.answer,
  detect: (text, scan) => {
    const { texts, calls: found, isOpen } = readSections(text);
    for (const call of found) {
      if (call.name === "")
        scan.report("no-name", text, 'A call must have "tool_call_id" and "tool_name" before "parameters".');
      else scan.reportUnknown(call.name, text);
      scan.add([scan.call(call.name, call.parameters)]);
    }
    const last = found.at(-1)?.name ?? "";
    if (isOpen) {
      scan.report("unterminated-call", text, "The parameters of the last call are not complete.", last || null);
    }
    return texts.answer;
  },
});

/** The tags of a thought stay where what follows depends on them. */
export const cohereCommand3Reasoning: ReasoningParser = {
  name: "cohere_command3",
  markers: [thought, thoughtEnd],
  hasTags: true,
  split: (original, options = {}) => {
    const text = options.forceReasoning === true ? thought + original : original;
    if (!text.includes(thought)) return { reasoning: "", normalText: text };
    let normalText = "";
    let open = "";
    let isThought = false;
    let at = 0;
    for (const { 0: token, index } of text.matchAll(marker)) {
      const before = text.slice(at, index);
      at = index + token.length;
      if (isThought) {
        // A blank thought makes the answer after it lose its white space, too.
        if (blank.test(before)) normalText += open;
        else if (token === thoughtEnd && normalText === "") {
          isThought = false;
          continue;
        }
      } else {
        normalText += before;
      }
      isThought = token === thought;
      if (isThought) open = token;
      else normalText += token;
    }
    return {
      reasoning: readSections(text).texts.thought,
      normalText: isThought ? normalText : normalText + text.slice(at),
    };
  },
  // Citations are read to their end.
  startSplitting: () => silentStep,
};

const blank = /^\p{White_Space}*$/u;

type FoundCall = { name: string; parameters: string };

type Sections = {
  readonly texts: Readonly<Record<"answer" | "thought", string>>;
  readonly calls: readonly FoundCall[];
  /** True if the text ends inside the parameters of a call. */
  readonly isOpen: boolean;
};

function readSections(text: string): Sections {
  const reader = new SectionReader();
  let at = 0;
  for (const { 0: token, index } of text.matchAll(marker)) {
    if (index > at) reader.read(text.slice(at, index), true);
    reader.enter(modes[token]!);
    at = index + token.length;
  }
  const last = text.slice(at);
  // The beginning of a marker holds the whole rest back until the end.
  const isHeld = beginningOfOne(last, last.length, markers) > 0;
  const rest = isHeld ? last : reader.read(last, false);
  if (rest !== "") reader.read(rest, true);
  return { texts: reader.texts, calls: reader.actions.found, isOpen: reader.actions.isOpen };
}

class SectionReader {
  readonly texts = { answer: "", thought: "" };
  readonly actions = new ActionReader();
  #mode: Mode = "answer";
  #trimsStart = false;
  /** Length of the text of an open citation that is already shown; `null` if none is. */
  #shown: number | null = null;

  enter(mode: Mode): void {
    this.#mode = mode;
    if (mode === "thought") this.#trimsStart = true;
    if (mode === "thought" || mode === "answer") this.#shown = null;
  }

  /** Reads a piece of the current section and returns what is to be read again; `isLast`: nothing follows it. */
  read(piece: string, isLast: boolean): string {
    if (this.#mode === "nothing") return piece;
    if (this.#mode === "calls") return piece.slice(this.actions.read(piece));
    let said = piece.replace(trailingBlank, "");
    const trailing = piece.slice(said.length);
    if (this.#trimsStart) {
      said = said.replace(/^\p{White_Space}+/u, "");
      if (said !== "") this.#trimsStart = false;
    }
    const found = this.#withoutCitations(said);
    if (found !== null && (found.text !== "" || found.hasCitation)) {
      this.texts[this.#mode] += found.text;
      return said.slice(found.used) + trailing;
    }
    if (said === "" || !isLast) return said.slice(found?.used ?? 0) + trailing;
    const shown = this.#shown ?? 0;
    this.#shown = null;
    this.texts[this.#mode] += said.slice(Math.min(shown, said.length));
    return "";
  }

  /** The text without the tags of citations, and how much of it is read; `null`: it must be read as a whole. */
  #withoutCitations(
    said: string,
  ): { readonly text: string; readonly used: number; readonly hasCitation: boolean } | null {
    let text = "";
    let from = 0;
    let hasCitation = false;
    const stop = () => (hasCitation ? { text, used: from, hasCitation } : null);
    for (;;) {
      const length = said.length - from;
      const open = said.indexOf("<co>", from);
      if (open === -1) {
        if (beginningOfOne(said, said.length, ["<co>"]) > 0 && from < said.length) return stop();
        return { text: text + said.slice(from), used: said.length, hasCitation };
      }
      const whole = said.indexOf("</co: ", from);
      const partial = whole === -1 ? Math.min(beginningOfOne(said, said.length, ["</co: "]), length) : 0;
      const close = whole === -1 && partial > 0 ? said.length - partial : whole;
      const end = whole === -1 ? -1 : said.indexOf(">", whole + 1);
      const before = said.slice(from, open);
      if (end === -1) {
        const start = this.#shown ?? open - from + 4;
        const isRead = this.#shown !== null && this.#shown >= length;
        if (!isRead) this.#shown = length - before.length;
        const limit = close > from ? close - from : length;
        const shown = isRead || start >= limit ? before : before + said.slice(from + start, from + limit);
        if (shown === "") return stop();
        return { text: text + shown, used: from + before.length, hasCitation };
      }
      if (open + 3 > close) return stop();
      const start = this.#shown;
      if (start === null) text += before + said.slice(open + 4, close);
      else text += said.slice(Math.min(from + start, close), close);
      this.#shown = null;
      hasCitation = true;
      from = end + 1;
    }
  }
}

const trailingBlank = /(?<!\p{White_Space})\p{White_Space}+$/u;

type ActionMode = "before" | "id" | "after-id" | "name" | "after-name" | "parameters";

/** The list of calls, read for its keys in their order. */
class ActionReader {
  readonly found: FoundCall[] = [];
  #mode: ActionMode = "before";
  /** The parameters that are being read, perhaps since an earlier section; `null` outside of them. */
  #parameters: JsonEndFinder | null = null;
  #place = 0;
  #removed = 0;
  #isInLine = false;

  get isOpen(): boolean {
    return this.#mode === "parameters";
  }

  /** Reads a section and returns how much of it needs no further reading. */
  read(text: string): number {
    if (text.endsWith("\\")) return 0;
    let at = 0;
    let nextParameters: RegExpExecArray | null | undefined;
    while (at < text.length) {
      switch (this.#mode) {
        case "before":
        case "after-id": {
          const key = findFrom(this.#mode === "before" ? callId : toolName, text, at);
          if (key === null) return at;
          at = key.index + key[0].length;
          this.#mode = this.#mode === "before" ? "id" : "name";
          break;
        }
        case "id":
        case "name": {
          const end = quoteEnd(text, at);
          if (end === -1) return at;
          if (end > at) this.#call().name = this.#mode === "name" ? text.slice(at, end) : this.#call().name;
          at = end + 1;
          this.#mode = this.#mode === "id" ? "after-id" : "after-name";
          break;
        }
        case "after-name": {
          if (nextParameters === undefined || (nextParameters !== null && nextParameters.index < at)) {
            nextParameters = findFrom(objectParameters, text, at);
          }
          const key = nextParameters === null ? null : findFrom(parameters, text, at);
          if (key !== null) {
            at = key.index + key[0].length;
            this.#mode = "parameters";
            break;
          }
          const end = text.indexOf("}", at);
          if (end === -1) return at;
          at = end;
          this.#place++;
          this.#mode = "before";
          break;
        }
        case "parameters": {
          this.#parameters ??= new JsonEndFinder();
          const end = this.#parameters.push(text, at);
          const stop = end === -1 ? text.length : end;
          this.#write(text.slice(at, stop));
          at = stop;
          if (end === -1) break;
          this.#parameters = null;
          this.#place++;
          this.#mode = "before";
          break;
        }
        default:
          this.#mode satisfies never;
      }
    }
    return at;
  }

  #call(): FoundCall {
    const last = this.found.at(-1);
    if (last !== undefined && this.#written === this.#place) return last;
    this.#written = this.#place;
    const call = { name: "", parameters: "" };
    this.found.push(call);
    return call;
  }

  /** Place of the last of `found`: places without a word are left out. */
  #written = -1;

  /** Without the indentation that the model writes: up to eight blanks at the beginning of a line. */
  #write(text: string): void {
    let written = "";
    for (const character of text) {
      if (character === "\n") {
        [this.#removed, this.#isInLine] = [0, false];
      } else if (!/\p{White_Space}/u.test(character)) {
        this.#isInLine = true;
      } else if (!this.#isInLine && this.#removed < 8) {
        this.#removed++;
        continue;
      }
      written += character;
    }
    if (written !== "") this.#call().parameters += written;
  }
}

const callId = /"tool_call(?:_id)?":\p{White_Space}*"/gu;
const toolName = /"tool_name":\p{White_Space}*"/gu;
const objectParameters = /"parameters":\p{White_Space}*\{\p{White_Space}*"/gu;
const parameters = /"parameters":\p{White_Space}*/gu;

function findFrom(pattern: RegExp, text: string, at: number): RegExpExecArray | null {
  pattern.lastIndex = at;
  return pattern.exec(text);
}

/** The next quote that is not escaped; -1 if there is none. */
function quoteEnd(text: string, from: number): number {
  for (let at = from; at < text.length; at++) {
    if (text[at] === "\\") at++;
    else if (text[at] === '"') return at;
  }
  return -1;
}
