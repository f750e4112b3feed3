// Limits on the resources of a template. Python limits nothing but ranges, so these limits are far
// above the needs of conversations: they stop a hostile template, which then raises "limit", before
// it stops the process.

import {
  checkTextLength,
  concatStrings,
  itemsMade,
  limitError,
  type Origin,
  PythonDict,
  PythonError,
  PythonList,
  PythonTuple,
  type PythonValue,
  runsOf,
  spend,
  TracedText,
} from "../../python-semantics/index.ts";
import { type Steps, stepItems } from "../../lib/steps.ts";
import type { TemplateSegment } from "../chat-template.ts";

/**
 * Characters and items that all operations of one rendering read or write together: a thousand
 * times the longest prompts.
 */
const maxWork = 2 ** 30;
/** Maximum number of characters of a template. Published ones have up to 40,000. */
export const maxTemplateLength = 2 ** 20;
/**
 * Time limit for compiling a template, and for one rendering. Prompts of 128,000 tokens take a
 * twentieth of a second.
 */
export const maxTimeMs = 10_000;
/**
 * Operations of a rendering before a clock is started: many times those of a long conversation, and no more than about a second.
 * The clock is a thread, and starting it costs more than most renderings.
 */
export const unwatchedOperations = 2 ** 20;
/** The same limit for a rendering in steps, of which this is the first step: some milliseconds. */
export const unwatchedStep = 2 ** 16;
/**
 * Maximum total number of iterations of all loops of one rendering: a loop over all messages within
 * a loop over 2,800 of them.
 */
const maxIterations = 2 ** 23;
/** Maximum nesting depth of macros; CPython's own recursion limit stops near 250. */
const maxDepth = 200;
/** Maximum number of bits of an integer. */
export const maxIntegerBits = 2 ** 14;
/** Maximum number of items of all lists, tuples and dicts that one rendering makes. */
const maxAllItems = 2 ** 23;

/**
 * Number of characters, of a string or of a template, that cost about as much as one small
 * operation (`spend`).
 */
const charactersPerOperation = 64;

/** Charges for the text or the items that an operation may read of a value that was looked up. */
export function read<T extends PythonValue | undefined>(value: T): T {
  if (value instanceof TracedText) spend(1 + value.text.length / charactersPerOperation);
  else if (value instanceof PythonList || value instanceof PythonTuple || value instanceof PythonDict)
    spend(1 + value.length);
  else spend(1);
  return value;
}

/** Continuation after a statement: the next statement, or a jump of the enclosing loop. */
export type Signal = "next" | "break" | "continue";

export type Evaluate = (frame: Frame) => PythonValue;
export type Execute = {
  (frame: Frame): Signal;
  /** The same in steps, one for each iteration of a loop; absent where all of it is one step. */
  readonly steps?: (frame: Frame) => Steps<Signal>;
};

export class Frame {
  /** Values of variables, by the slots of `Symbols`; `undefined` if not set. */
  readonly slots: (PythonValue | undefined)[];
  /** The frame around a macro's own frame. */
  readonly parent: Frame | null;
  readonly run: Run;

  constructor(size: number, parent: Frame | null, run: Run) {
    this.slots = Array.from<PythonValue | undefined>({ length: size });
    this.parent = parent;
    this.run = run;
  }
}

type Output = { readonly parts: TracedText[]; length: number };

/** One rendering: its variables, its output, and the resources it has used. */
export class Run {
  readonly variables: ReadonlyMap<string, PythonValue>;
  /** Place of the message of the current loop iteration; loops over messages set it. */
  message: number | null = null;
  #output: Output = { parts: [], length: 0 };
  /** Origins within one message, by their earlier origins. */
  #placed = new Map<Origin, Origin>();
  #placedMessage: number | null = null;
  /**
   * Operations charged for one iteration or macro call, which may run through the whole template.
   */
  readonly #operations: number;
  #work = 0;
  #iterations = 0;
  #depth = 0;
  #itemsBefore = itemsMade();

  constructor(variables: ReadonlyMap<string, PythonValue>, templateLength: number) {
    this.variables = variables;
    this.#operations = 1 + templateLength / charactersPerOperation;
  }

  /** Throws if all operations together have read or written too much text. */
  work(amount: number): void {
    this.#work += amount;
    spend(1 + amount / charactersPerOperation);
    if (this.#work > maxWork) throw limitError(`it works on more than ${maxWork} characters`);
    if (itemsMade() - this.#itemsBefore > maxAllItems) {
      throw limitError(`it makes lists of more than ${maxAllItems} items together`);
    }
  }

  /** Excludes items that others made between two steps from this rendering's count. */
  excludeItems(count: number): void {
    this.#itemsBefore += count;
  }

  iteration(): void {
    spend(this.#operations);
    if (++this.#iterations > maxIterations) throw limitError(`its loops run more than ${maxIterations} times`);
  }

  /** Runs a macro one level deeper. */
  descend<T>(run: () => T): T {
    spend(this.#operations);
    if (++this.#depth > maxDepth)
      throw new PythonError("RecursionError", `its macros call each other more than ${maxDepth} deep`);
    try {
      return run();
    } finally {
      this.#depth--;
    }
  }

  /**
   * Writes text; text without a message of its own belongs to the current message. Throws "limit"
   * for too much.
   */
  write(text: TracedText): void {
    this.work(text.text.length);
    checkTextLength((this.#output.length += text.text.length));
    const message = this.message ?? soleMessage(text);
    const runs = runsOf(text);
    if (runs.length === 0) return;
    const placed =
      runs.length === 1
        ? this.#place(runs[0]!.origin, message)
        : runs.map(({ origin, length }) => ({ origin: this.#place(origin, message), length }));
    this.#output.parts.push(new TracedText(text.text, placed));
  }

  /** Collects the text that `execute` writes, instead of adding it to the output. */
  capture(execute: () => unknown): TracedText {
    const outer = this.#output;
    this.#output = { parts: [], length: 0 };
    try {
      execute();
      return concatStrings(this.#output.parts);
    } finally {
      this.#output = outer;
    }
  }

  /** The whole output; neighbouring segments differ in their origins. */
  *toSegments(): Steps<TemplateSegment[]> {
    const segments: { -readonly [Key in keyof TemplateSegment]: TemplateSegment[Key] }[] = [];
    for (const [place, part] of this.#output.parts.entries()) {
      if (place % stepItems === stepItems - 1) yield;
      let offset = 0;
      for (const { origin, length } of runsOf(part)) {
        const text = part.text.slice(offset, (offset += length));
        const last = segments.at(-1);
        if (last?.source === origin.source && last.message === origin.message) last.text += text;
        else segments.push({ message: origin.message, source: origin.source, text });
      }
    }
    return segments;
  }

  #place(origin: Origin, message: number | null): Origin {
    if (origin.message !== null || message === null) return origin;
    if (this.#placedMessage !== message) {
      this.#placed = new Map();
      this.#placedMessage = message;
    }
    let placed = this.#placed.get(origin);
    if (placed === undefined) {
      placed = { source: origin.source, message };
      this.#placed.set(origin, placed);
    }
    return placed;
  }
}

/**
 * Text of one message with the template's text around it, written at once, belongs to that message
 * as a whole.
 */
function soleMessage(text: TracedText): number | null {
  let sole: number | null = null;
  for (const { origin } of runsOf(text)) {
    if (origin.message === null) continue;
    if (sole !== null && sole !== origin.message) return null;
    sole = origin.message;
  }
  return sole;
}
