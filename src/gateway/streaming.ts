// A streamed answer during sampling: the parts of the sampled text that can be sent to a client.
// Text that may still become a call, or the end of a thought, is held back; emitted text is never
// retracted.

import type { ParsedAction, Renderer } from "../core/index.ts";
import type { AnswerDelta } from "./request.ts";
import { actionText, type ReadingOptions } from "./shown-action.ts";
import { sureEnd } from "./stop-strings.ts";

/**
 * Minimum time between two parses, in milliseconds: a stream of a thousand tokens is not parsed a
 * thousand times.
 */
const betweenMs = 25;
/**
 * Length for renderers that do not state one, in characters: longer than any marker that a parser
 * looks for in text.
 */
const longestMarker = 32;

export type AnswerReaderOptions = {
  readonly renderer: Renderer;
  /** Options for parsing the whole answer. */
  readonly reading: ReadingOptions;
  /** Strings before which the text ends. */
  readonly stop: readonly string[];
};

/** Converts tokens into deltas as they arrive. */
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

/**
 * A parser treats unfinished thinking as content; an opening tag at the start of the text reveals
 * it.
 */
function partsOf({ reasoning, content }: ParsedAction): { readonly reasoning: string; readonly content: string } {
  const isThinking = reasoning === null && /^\s*<[^>\s]*(think|reason|thought)[^>]*>/i.test(content);
  return { reasoning: reasoning ?? "", content: isThinking ? "" : content };
}

/** Removes half a character, which the next token completes. */
function withoutBrokenEnd(text: string): string {
  return text.replace(/\uFFFD+$/, "");
}

// Parts of an answer as they become known, for any number of clients: a client that lost its
// connection and repeats its request reads from the first part.

export class Deltas {
  readonly list: AnswerDelta[] = [];
  /** True if the whole answer was sent to a client, including its end. */
  isSent = false;
  #isDone = false;
  #waiting = new Set<() => void>();

  /** True if no more parts follow. */
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

  /** Resolves when there are more parts or the answer is complete; "nothing" after `withinMs`. */
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
