// Tool calls of Llama 3: JSON objects after `<|python_tag|>`, or from the very beginning of the text, with one character
// between them (nominally ";"). A Python dict is accepted where JSON is not.

import { JsonSyntaxError, type JsonValue, parseJson } from "../../lib/json/index.ts";
import { pythonRstrip, pythonStrip } from "../../lib/python/index.ts";
import { formatHints } from "../format-hints.ts";
import { pythonExceptionType } from "../python/exception.ts";
import { evaluateLiteral } from "../python/literal.ts";
import { dumpPython, isDict } from "../python/value.ts";
import { createToolCallParser } from "../tool-call-parser.ts";
import { guessName, type ToolCallScan } from "../tool-call-scan.ts";

const tag = "<|python_tag|>";
const separatorLength = 1;
const callBeginning = '{"name":';
const jsonSpace = " \t\r\n";

export const llama3 = createToolCallParser({
  name: "llama3",
  markers: [tag],
  hints: formatHints({ wordsEnd: [tag], wordsEndAtStart: ["{"] }),
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

/** The values side by side in a text. Where none can be read, reading goes on at what looks like the next call. */
function* readValues(text: string, scan: ToolCallScan): Generator<Step> {
  const closingBrace = lazily(() => indexBraces(text));
  for (let start = 0; start !== -1 && start < text.length;) {
    const step = readPrefix(text, start) ?? readPythonDict(text, start, closingBrace()(start));
    if (step === null) {
      const name = guessName(text.slice(start, start + 500));
      scan.report("not-json", text.slice(start), "The call is not valid JSON.", name);
      start = text.indexOf(callBeginning, start + 1);
    } else {
      yield step;
      start = step.end + separatorLength;
    }
  }
}

/** Made when it is first asked for. */
function lazily<Value>(make: () => Value): () => Value {
  let made: { readonly value: Value } | null = null;
  return () => (made ??= { value: make() }).value;
}

type Step = { readonly value: JsonValue; readonly end: number };

/** `JSONDecoder.raw_decode`: the JSON value that begins here, whatever follows; `null` on a decode error. */
function readPrefix(text: string, start: number): Step | null {
  if (/^[ \t\r\n]/.test(text.slice(start, start + 1))) return null;
  const rest = text.slice(start);
  try {
    return { value: parseJson(rest), end: start + pythonRstrip(rest, jsonSpace).length };
  } catch (error) {
    if (!(error instanceof JsonSyntaxError) || error.pythonType !== "JSONDecodeError") throw error;
    if (!error.pythonMessage.startsWith("Extra data")) return null;
    const prefix = pythonRstrip(rest.slice(0, error.offset), jsonSpace);
    return { value: parseJson(prefix), end: start + prefix.length };
  }
}

/** The Python dict that ends with the brace that closes what begins here. */
function readPythonDict(text: string, start: number, end: number): Step | null {
  if (end <= start) return null;
  const source = text.slice(start, end);
  try {
    const literal = evaluateLiteral(pythonStrip(source));
    if (!isDict(literal)) return null;
    const json = dumpPython(literal);
    return json === source ? null : { value: parseJson(json), end };
  } catch (error) {
    if (pythonExceptionType(error) === null) throw error;
    return null;
  }
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
  const nextAtDepth = new Map<number, number>();
  for (let at = text.length - 1; at >= 0; at--) {
    if (text[at] === "}") nextAtDepth.set(depths[at + 1]!, at + 1);
    ends[at] = nextAtDepth.get(depths[at]!) ?? -1;
  }
  return (start) => ends[start] ?? -1;
}
