// Tool calls of Llama 3: JSON objects after `<|python_tag|>`, or from the very beginning of the
// text, separated by one character (nominally ";"). A Python dict is accepted where JSON is not.

import { dumpJson, type JsonValue, parseJson, parseJsonPrefix } from "../../python-semantics/json/index.ts";
import { isDict, pythonStrip, unlessRaised } from "../../python-semantics/index.ts";
import { evaluateLiteral } from "../../python-semantics/literals.ts";
import { createToolCallParser } from "../tool-call-format.ts";
import { guessName, type ToolCallScan } from "../tool-call-scan.ts";

const tag = "<|python_tag|>";
const separatorLength = 1;
const callBeginning = '{"name":';

export const llama3 = createToolCallParser({
  name: "llama3",
  markers: [tag],
  hints: { contentEnd: [tag], contentEndAtStart: ["{"] },
  opening: null,
  hasToolCall: (text) => text.includes(tag) || text.startsWith("{"),
  detect: (text, scan) => {
    const tagStart = text.indexOf(tag);
    if (tagStart === -1 && !text.startsWith("{")) return text;
    const behind = tagStart === -1 ? text : text.slice(tagStart + tag.length);
    const values = [...readValues(behind, scan)];
    if (values.length > 0) scan.add(scan.callsIn(values.map(({ value }) => value), behind)); // prettier-ignore
    const last = values.at(-1);
    const unread = last === undefined ? behind : behind.slice(last.end + separatorLength);
    return text.slice(0, Math.max(0, tagStart)) + pythonStrip(unread);
  },
});

/**
 * Reads consecutive values in a text. If none can be read, reading continues at the next text that
 * looks like a call. Text that a failed reading has covered is not read again, so hostile nesting
 * takes linear time.
 */
function* readValues(text: string, scan: ToolCallScan): Generator<Step> {
  const closingBrace = lazily(() => indexBraces(text));
  const dicts = new DictReader(text);
  /** Positions of values inside a failed reading: read from there, they fail at the same position. */
  const doomed = new Set<number>();
  for (let start = 0; start !== -1 && start < text.length;) {
    const prefix = doomed.has(start) ? null : parseJsonPrefix(text, start);
    if (prefix?.type === "error") {
      if (prefix.error.pythonType !== "JSONDecodeError") throw prefix.error;
      for (const place of prefix.open) doomed.add(place);
    }
    const step = prefix?.type === "value" ? prefix : dicts.read(start, closingBrace()(start));
    if (step === null) {
      const next = text.indexOf(callBeginning, start + 1);
      scan.report("not-json", text.slice(start), dicts.failure, guessName(text.slice(start, start + 500)));
      start = next;
    } else {
      yield step;
      start = step.end + separatorLength;
    }
  }
}

/** Computes a value on the first call. */
function lazily<Value>(make: () => Value): () => Value {
  let made: { readonly value: Value } | null = null;
  return () => (made ??= { value: make() }).value;
}

type Step = { readonly value: JsonValue; readonly end: number };

/**
 * Maximum total length of failed readings of Python dicts, as a multiple of the text: each could be
 * as long as the text.
 */
const maxRereads = 8;

/**
 * Reads Python dicts in one text, and gives up after too many failures: the only difference from
 * the reference.
 */
class DictReader {
  readonly #text: string;
  #budget: number;
  #hasGivenUp = false;

  constructor(text: string) {
    this.#text = text;
    this.#budget = maxRereads * text.length;
  }

  /** Reason why the last reading failed. */
  get failure(): string {
    const reason = "The call is not valid JSON";
    return this.#hasGivenUp ? `${reason}, and too much of the text was tried as a Python dict already.` : `${reason}.`;
  }

  /** Reads the dict that begins at `start`, up to the brace that closes it. */
  read(start: number, end: number): Step | null {
    this.#hasGivenUp = end > start && this.#budget < end - start;
    if (end <= start || this.#hasGivenUp) return null;
    const step = readPythonDict(this.#text.slice(start, end), end);
    if (step === null) this.#budget -= end - start;
    return step;
  }
}

function readPythonDict(source: string, end: number): Step | null {
  const json = unlessRaised(null, () => {
    const literal = evaluateLiteral(pythonStrip(source));
    return isDict(literal) ? dumpJson(literal) : source;
  });
  const value = json === undefined || json === source ? undefined : unlessRaised(null, () => parseJson(json));
  return value === undefined ? null : { value, end };
}

/**
 * Position after the closing brace at which a count of braces from `start` first returns to zero;
 * -1 if it never does.
 */
type BraceIndex = (start: number) => number;

function indexBraces(text: string): BraceIndex {
  const depths = new Int32Array(text.length + 1);
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    depths[at + 1] = depths[at]! + (character === "{" ? 1 : character === "}" ? -1 : 0);
  }
  const ends = new Int32Array(text.length + 1).fill(-1);
  /** Next closing position at each depth; the index is shifted so that it is never negative. */
  const nextAtDepth = new Int32Array(2 * text.length + 1).fill(-1);
  for (let at = text.length - 1; at >= 0; at--) {
    if (text[at] === "}") nextAtDepth[depths[at + 1]! + text.length] = at + 1;
    ends[at] = nextAtDepth[depths[at]! + text.length]!;
  }
  return (start) => ends[start] ?? -1;
}
