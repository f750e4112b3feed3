// Reads truncated JSON as SGLang does with the package `partial-json-parser`: it closes open
// brackets and strings by examining the last brackets, quotes, commas and colons. Not our own
// heuristic (that is `tolerant-json.ts`): where the package returns an odd value, so does this.

import { isSpace, PythonError, pythonStrip, unlessRaised } from "../python-semantics/index.ts";
import { JsonSyntaxError, type JsonValue, parseJson, parseJsonPrefix } from "../python-semantics/json/index.ts";

/** Nesting at CPython's recursion limit, with two frames per level. */
const maxDepth = 490;

/**
 * Reads the value of a text that may be truncated; `undefined` for text that is not JSON even so.
 * Text after a complete value is dropped. Throws a `PythonError` or a `JsonSyntaxError` for nesting
 * that Python does not read.
 */
export function readPartialJson(text: string): JsonValue | undefined {
  return unlessRaised(["JSONDecodeError", "ValueError", "AssertionError"], () => readCompleted(text));
}

function readCompleted(text: string): JsonValue {
  try {
    return parseJson(completed(text));
  } catch (error) {
    const isExtra = error instanceof JsonSyntaxError && error.pythonMessage.startsWith("Extra data");
    if (!isExtra && !(error instanceof PythonError && error.pythonType === "IndexError")) throw error;
    const prefix = parseJsonPrefix(text, text.length - text.replace(/^[ \t\n\r]+/, "").length);
    if (prefix.type === "error") throw prefix.error;
    return prefix.value;
  }
}

const raise = (type: string): never => {
  throw new PythonError(type, "JSON that was cut off");
};

function assertThat(condition: boolean): void {
  if (!condition) raise("AssertionError");
}

type Bracket = { readonly at: number; readonly opening: "{" | "[" };

const closings = (stack: readonly Bracket[]): string =>
  stack.map(({ opening }) => (opening === "{" ? "}" : "]")).toReversed().join(""); // prettier-ignore

/** The text with its missing end added; the result need not be JSON. */
function completed(text: string): string {
  const marks = [...text.matchAll(/["[\]{}]/g)];
  const mark = marks.at(-1);
  if (mark === undefined || marks[0]?.[0] === '"') return completedValue(text, true);
  const { stack, isString, lastStart, lastEnd } = openBrackets(text, marks);
  const top = stack.at(-1);
  if (top === undefined) return text;
  const around = stack.slice(0, -1);

  if (isString) {
    const before = text.slice(0, lastStart);
    const closedString = (): string => before + completedValue(text.slice(lastStart)) + closings(stack);
    if (top.opening === "[") return closedString();
    const start = Math.max(lastEnd, top.at);
    const between = text.slice(start + 1, lastStart);
    if (between.includes(",")) {
      const comma = text.lastIndexOf(",", lastStart - 1);
      const { head, tail } = complete(`{${text.slice(comma + 1)}`, false);
      return text.slice(0, comma) + head.slice(1) + tail + closings(around);
    }
    return between.includes(":") ? closedString() : before + closings(stack);
  }

  const lastComma = lastIndexIn(text, ",", Math.max(lastEnd, mark.index) + 1, text.length);
  if (lastComma !== -1) {
    if (pythonStrip(text.slice(lastComma + 1)) === "") return text.slice(0, lastComma) + closings(stack);
    assertThat(top.opening === "[");
    return completedTail(text, lastComma, { opening: "[", after: closings(around), afterEmpty: closings(around) });
  }
  if (mark[0] === "]" || mark[0] === "}") {
    assertThat(pythonStrip(text.slice(mark.index + 1)) === "");
    return text + closings(stack);
  }
  if (mark[0] !== '"') return text.slice(0, mark.index) + completedValue(text.slice(mark.index)) + closings(around);
  if (top.opening === "[") return text + closings(stack);
  const colon = text.indexOf(":", lastEnd) === -1 ? -1 : text.lastIndexOf(":");
  const comma = lastIndexIn(text, ",", top.at + 1, lastStart);
  if (comma === -1) return text.slice(0, top.at) + completedValue(text.slice(top.at)) + closings(around);
  if (colon === -1) {
    if (lastIndexIn(text, ":", Math.max(top.at, comma) + 1, lastStart) !== -1) return text + closings(stack);
    return completedTail(text, comma, { opening: "{", after: closings(stack), afterEmpty: closings(around) });
  }
  assertThat(colon > comma);
  return completedTail(text, comma, { opening: "{", after: closings(around), afterEmpty: closings(around) });
}

type Tail = { readonly opening: "{" | "["; readonly after: string; readonly afterEmpty: string };

/**
 * The text with the last item of a container completed; without the comma before it if nothing of
 * the item is left.
 */
function completedTail(text: string, comma: number, { opening, after, afterEmpty }: Tail): string {
  const { head, tail } = complete(opening + text.slice(comma + 1), false);
  const isEmpty = head.slice(1) + pythonStrip(tail.slice(0, -1)) === "";
  return text.slice(0, isEmpty ? comma : comma + 1) + head.slice(1) + tail + (isEmpty ? afterEmpty : after);
}

function lastIndexIn(text: string, sought: string, start: number, end: number): number {
  const at = end > start ? text.slice(start, end).lastIndexOf(sought) : -1;
  return at === -1 ? -1 : start + at;
}

function openBrackets(text: string, marks: readonly RegExpExecArray[]) {
  const stack: Bracket[] = [];
  let isString = false;
  let [lastStart, lastEnd] = [-1, -1];
  for (const { 0: mark, index: at } of marks) {
    if (mark === '"') {
      if (!isString) {
        isString = true;
        lastStart = at;
      } else if (!isEscaped(text, at)) {
        isString = false;
        lastEnd = at;
      }
    } else if (!isString) {
      if (mark === "{" || mark === "[") stack.push({ at, opening: mark });
      else {
        const { opening } = stack.pop() ?? raise("IndexError");
        assertThat(opening === (mark === "}" ? "{" : "["));
      }
    }
  }
  return { stack, isString, lastStart, lastEnd };
}

function isEscaped(text: string, at: number): boolean {
  let start = at;
  while (text[start - 1] === "\\") start--;
  return (at - start) % 2 === 1;
}

function completedValue(text: string, isWhole = false): string {
  const { head, tail } = complete(text, isWhole);
  return head + tail;
}

/**
 * Completes one value: the valid part of the text, and its missing end. Positions refer to the text
 * without surrounding blanks, as in the package.
 */
function complete(text: string, isWhole: boolean): { readonly head: string; readonly tail: string } {
  const completion =
    unlessRaised(["AssertionError", "IndexError"], () => new Completer(pythonStrip(text)).value(0, isWhole, 0)) ??
    raise("JSONDecodeError");
  return { head: text.slice(0, completion.at), tail: completion.lacks ?? "" };
}

/** End of the valid part of a value, and its missing end; `lacks` is `null` for a complete value. */
type Completion = { readonly at: number; readonly lacks: string | null };

const words = ["null", "true", "false", "Infinity", "-Infinity", "NaN"] as const;

/**
 * Methods return `null` if not even a value can be made, and raise an "IndexError" if the text ends
 * too early.
 */
class Completer {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  /** The value at a position. `isWhole`: the text consists only of this value. */
  value(start: number, isWhole: boolean, depth: number): Completion | null {
    if (depth > maxDepth) raise("RecursionError");
    const first = this.#at(start);
    if (first === '"') return this.#string(start);
    if (/[0-9]/.test(first)) return this.#number(start, isWhole);
    if (first === "[") return this.#list(start, depth);
    if (first === "{") return this.#object(start, depth);
    const rest = this.#text.slice(start, start + 10);
    for (const word of words) {
      if (word === "-Infinity" && first === "-") {
        if (rest.length === 1) return null;
        if (rest[1] !== "I") return this.#number(start, isWhole);
      }
      if (rest.startsWith(word)) return { at: start + word.length, lacks: null };
      if (word.startsWith(rest)) return { at: start, lacks: word };
    }
    return raise("JSONDecodeError");
  }

  #string(start: number): Completion {
    const text = this.#text;
    assertThat(this.#at(start) === '"');
    let at = start + 1;
    for (; at < text.length && text[at] !== '"'; at++) {
      if (text[at] !== "\\") continue;
      if (at + 1 === text.length) break;
      at++;
    }
    if (at < text.length && text[at] === '"') return { at: at + 1, lacks: null };
    for (const [mark, length] of [["\\u", 5], ["\\U", 9], ["\\x", 3]] as const) {
      const escape = lastIndexIn(text, mark, this.#before(at, length, start), at);
      if (escape !== -1 && !isEscaped(text, escape)) return { at: escape, lacks: '"' };
    } // prettier-ignore
    return { at, lacks: '"' };
  }

  /** Position `count` whole characters earlier, but not before the string. */
  #before(at: number, count: number, start: number): number {
    let place = at;
    for (let left = count; left > 0 && place > start; left--) place -= /[\udc00-\udfff]/.test(this.#text[place - 1]!) ? 2 : 1; // prettier-ignore
    return Math.max(place, start);
  }

  #list(start: number, depth: number): Completion {
    let [kept, at] = [start + 1, start + 1];
    try {
      for (;;) {
        at = this.#skipBlanks(at);
        if (this.#at(at) === "]") return { at: at + 1, lacks: null };
        const item = this.value(at, false, depth + 1);
        if (item === null) return { at: kept, lacks: "]" };
        if (item.lacks !== null) return { at: item.at, lacks: `${item.lacks}]` };
        kept = item.at;
        at = this.#skipBlanks(kept);
        const next = this.#at(at);
        if (next === "]") return { at: at + 1, lacks: null };
        if (next !== ",") raise("JSONDecodeError");
        at++;
      }
    } catch (error) {
      if (error instanceof PythonError && error.pythonType === "IndexError") return { at: kept, lacks: "]" };
      throw error;
    }
  }

  #object(start: number, depth: number): Completion {
    let [kept, at] = [start + 1, start + 1];
    try {
      for (;;) {
        at = this.#skipBlanks(at);
        if (this.#at(at) === "}") return { at: at + 1, lacks: null };
        const key = this.#string(at);
        if (key.lacks !== null) return { at: kept, lacks: "}" };
        at = this.#skipBlanks(key.at);
        if (this.#at(at) !== ":") raise("JSONDecodeError");
        at = this.#skipBlanks(at + 1);
        const value = this.value(at, false, depth + 1);
        if (value === null) return { at: kept, lacks: "}" };
        if (value.lacks !== null) return { at: value.at, lacks: `${value.lacks}}` };
        kept = value.at;
        at = this.#skipBlanks(kept);
        const next = this.#at(at);
        if (next === "}") return { at: at + 1, lacks: null };
        if (next !== ",") raise("JSONDecodeError");
        at++;
      }
    } catch (error) {
      if (error instanceof PythonError && error.pythonType === "IndexError") return { at: kept, lacks: "}" };
      throw error;
    }
  }

  /**
   * Drops signs, points and exponents at the end of a number. If the number consists only of those,
   * Python continues from the end of the text.
   */
  #number(start: number, isWhole: boolean): Completion {
    const text = this.#text;
    let at = start + 1;
    while (at < text.length && "1234567890.-+eE".includes(text[at]!)) at++;
    const end = at;
    const isBare = (place: number): boolean => {
      const before = place > start ? place - 1 : place - 1 + text.length - start;
      return ".-+eE".includes(this.#at(before < start ? -1 : before));
    };
    while (isBare(at)) at--;
    const isCut = at !== end || (end === text.length && !isWhole);
    return { at, lacks: isCut ? "" : null };
  }

  #skipBlanks(start: number): number {
    let at = start;
    while (at < this.#text.length && isSpace(this.#text[at]!)) at++;
    return at;
  }

  #at(place: number): string {
    return this.#text[place] ?? raise("IndexError");
  }
}
