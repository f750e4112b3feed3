// A streamed answer while it is sampled: which parts of what was sampled so far a client may be told. Text that may still become a
// call, or the end of a thought, is held back; what was told once is never taken back.

import type { ParsedAction, Renderer } from "../core/index.ts";
import type { AnswerDelta } from "./request.ts";
import { actionText, type ReadingOptions } from "./shown-action.ts";
import { sureEnd } from "./stop-strings.ts";

/** Parsed again when so many milliseconds have passed: a stream of a thousand tokens is not parsed a thousand times. */
const betweenMs = 25;
/** For renderers that do not say: longer than any marker that a parser looks for in text, in characters. */
const longestMarker = 32;

export type AnswerReaderOptions = {
  readonly renderer: Renderer;
  /** Options for parsing the whole answer. */
  readonly reading: ReadingOptions;
  /** Strings before which the text ends. */
  readonly stop: readonly string[];
};

/** Reads tokens as they come, into deltas. */
export function answerReader(
  { renderer, reading, stop }: AnswerReaderOptions,
  deltas: Deltas,
): (tokens: Uint32Array) => void {
  const sampled: number[] = [];
  const told = { reasoning: "", content: "" };
  let readAt = -Infinity;
  const sure = (text: string): string =>
    text.slice(0, Math.max(0, text.length - (renderer.heldBack?.(text) ?? longestMarker)));
  const tell = (type: "reasoning" | "content", text: string): void => {
    if (text.length <= told[type].length || !text.startsWith(told[type])) return;
    deltas.push({ type, text: text.slice(told[type].length) });
    told[type] = text;
  };
  return (newTokens) => {
    for (const id of newTokens) sampled.push(id);
    const now = performance.now();
    if (now - readAt < betweenMs) return;
    readAt = now;
    const tokens = Uint32Array.from(sampled);
    const end = stop.length === 0 ? {} : { textEnd: sureEnd(actionText(tokens, renderer), stop) };
    const action = renderer.parseAction(tokens, { ...reading, ...end });
    // Text that follows a call, or may become one, is sent only with the whole answer.
    if (action.toolCalls.length > 0 || action.problems.length > 0) return;
    const { reasoning, content } = partsOf(action);
    if (content === "") return tell("reasoning", withoutBrokenEnd(sure(reasoning)));
    tell("reasoning", reasoning);
    tell("content", withoutBrokenEnd(sure(content)));
  };
}

/** Thinking that has not ended is content to a parser; a tag that opens the text says that it is not. */
function partsOf({ reasoning, content }: ParsedAction): { readonly reasoning: string; readonly content: string } {
  const isThinking = reasoning === null && /^\s*<[^>\s]*(think|reason|thought)[^>]*>/i.test(content);
  return { reasoning: reasoning ?? "", content: isThinking ? "" : content };
}

/** Half a character, which the next token completes. */
function withoutBrokenEnd(text: string): string {
  return text.replace(/\uFFFD+$/, "");
}

// The parts of an answer as they become known, for however many clients read it: a client that lost its connection and asks
// again reads from the first part.

export class Deltas {
  readonly list: AnswerDelta[] = [];
  /** The whole answer was written to a client, its end included. */
  isTold = false;
  #isDone = false;
  #waiting = new Set<() => void>();

  /** Nothing more comes. */
  get isDone(): boolean {
    return this.#isDone;
  }

  push(delta: AnswerDelta): void {
    this.list.push(delta);
    this.#wake();
  }

  end(): void {
    this.#isDone = true;
    this.#wake();
  }

  /** Resolves when there is more, or all; "nothing" after `withinMs`. */
  async next(withinMs: number): Promise<"more" | "nothing"> {
    if (this.#isDone) return "more";
    return new Promise((resolve) => {
      const wake = (): void => {
        clearTimeout(timer);
        this.#waiting.delete(wake);
        resolve("more");
      };
      const timer = setTimeout(() => {
        this.#waiting.delete(wake);
        resolve("nothing");
      }, withinMs);
      this.#waiting.add(wake);
    });
  }

  #wake(): void {
    for (const wake of [...this.#waiting]) wake();
  }
}
