// Tool calls of Llama 3: JSON objects after `<|python_tag|>`, or from the very beginning of the text, with one character
// between them (nominally ";"). A Python dict is accepted where JSON is not.

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
 * The values side by side in a text. Where none can be read, reading continues at what looks like the next call. What a failed
 * reading went into is not read again, so hostile nesting costs no more than its length.
 */
function* readValues(text: string, scan: ToolCallScan): Generator<Step> {
  const closingBrace = lazily(() => indexBraces(text));
  const dicts = new DictReader(text);
  /** Where values begin that a failed reading was inside of: read from there, they fail at the same place. */
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

/** Made on the first call. */
function lazily<Value>(make: () => Value): () => Value {
  let made: { readonly value: Value } | null = null;
  return () => (made ??= { value: make() }).value;
}

type Step = { readonly value: JsonValue; readonly end: number };

/** Failed readings of Python dicts may together be this many times the text: each could be as long as the text. */
const maxRereads = 8;

/** Reads Python dicts out of one text, and gives up where that has failed too often: the one departure from the reference. */
class DictReader {
  readonly #text: string;
  #budget: number;
  #hasGivenUp = false;

  constructor(text: string) {
    this.#text = text;
    this.#budget = maxRereads * text.length;
  }

  /** Why the last reading failed. */
  get failure(): string {
    const reason = "The call is not valid JSON";
    return this.#hasGivenUp ? `${reason}, and too much of the text was tried as a Python dict already.` : `${reason}.`;
  }

  /** The dict that ends with the brace that closes what begins here. */
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

/** Where counting braces from a place first comes back to zero at a closing one (after it); -1: nowhere. */
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
