// One rendering: the caller's variables, what has been written, and which message the template is at. Frames hold the
// variables that the template itself sets.

import { Meter } from "../limits.ts";
import { type Origin, runsOf, type TracedText } from "../values/traced-text.ts";
import type { Value } from "../values/value.ts";
import { OutputBuffer } from "./output-buffer.ts";

/** What ends a statement: nothing special, or leaving the loop around it. */
export type Signal = "next" | "break" | "continue";

export type Evaluate = (frame: Frame) => Value;
export type Execute = (frame: Frame) => Signal;

export class Frame {
  /** By the slots of `Symbols`; `undefined` is not set. */
  readonly slots: (Value | undefined)[];
  /** The frame around a macro's own. */
  readonly parent: Frame | null;
  readonly run: Run;

  constructor(size: number, parent: Frame | null, run: Run) {
    this.slots = Array.from<Value | undefined>({ length: size });
    this.parent = parent;
    this.run = run;
  }
}

export class Run {
  readonly variables: ReadonlyMap<string, Value>;
  readonly meter = new Meter();
  #output = new OutputBuffer();
  /** Place of the message whose loop iteration is running; loops over messages set it. */
  message: number | null = null;
  /** Origins of this message, by what they were before. */
  #placed = new Map<Origin, Origin>();
  #placedMessage: number | null = null;

  constructor(variables: ReadonlyMap<string, Value>) {
    this.variables = variables;
  }

  get output(): OutputBuffer {
    return this.#output;
  }

  /** Writes text; what has no message of its own belongs to the one that the template is at. */
  write(text: TracedText): void {
    this.meter.work(text.text.length);
    const message = this.message ?? soleMessage(text);
    this.#output.write(text, (origin) => this.#place(origin, message));
  }

  /** What `write`s within `execute` give together; they go nowhere else. */
  capture(execute: () => unknown): TracedText {
    const outer = this.#output;
    this.#output = new OutputBuffer();
    try {
      execute();
      return this.#output.toText();
    } finally {
      this.#output = outer;
    }
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

/** Words of one message with text of the template around them, written at once, belong to that message as a whole. */
function soleMessage(text: TracedText): number | null {
  let sole: number | null = null;
  for (const { origin } of runsOf(text)) {
    if (origin.message === null) continue;
    if (sole !== null && sole !== origin.message) return null;
    sole = origin.message;
  }
  return sole;
}
