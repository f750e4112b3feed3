// Tool calls of Llama 3: JSON objects after `<|python_tag|>`, or from the very beginning of the text, with one character
// between them (nominally ";"). A Python dict is accepted where JSON is not.

import { JsonSyntaxError, type JsonValue, parseJson } from "../../lib/json/index.ts";
import { pythonRstrip, pythonStrip } from "../../lib/python/index.ts";
import { formatHints } from "../format-hints.ts";
import { pythonExceptionType } from "../python/exception.ts";
import { evaluateLiteral } from "../python/literal.ts";
import { dumpPython, isDict } from "../python/value.ts";
import { createToolCallParser } from "../tool-call-parser.ts";
import { guessName } from "../tool-call-scan.ts";

const tag = "<|python_tag|>";
const separatorLength = 1;
const jsonSpace = " \t\r\n";

export const llama3 = createToolCallParser({
  name: "llama3",
  markers: [tag],
  hints: formatHints({ wordsEnd: [tag], wordsEndAtStart: ["{"] }),
  hasToolCall: (text) => text.includes(tag) || text.startsWith("{"),
  detect: (text, scan) => {
    const tagStart = text.indexOf(tag);
    if (tagStart === -1 && !text.startsWith("{")) return text;
    const actions = tagStart === -1 ? text : text.slice(tagStart + tag.length);
    const found: JsonValue[] = [];
    let at = 0;
    let safe = 0;
    let braces: BraceIndex | null = null;
    while (at < actions.length) {
      let step = readPrefix(actions, at);
      if (step === null) {
        braces ??= indexBraces(actions);
        step = readPythonDict(actions, at, braces(at));
      }
      if (step === null) {
        scan.report(
          "not-json",
          actions.slice(at),
          "The call is not valid JSON.",
          guessName(actions.slice(at, at + 500)),
        );
        at = actions.indexOf('{"name":', at + 1);
        if (at === -1) break;
      } else {
        found.push(step.value);
        at = step.end + separatorLength;
        safe = at;
      }
    }
    if (found.length > 0) scan.add(scan.callsIn(found, actions));
    const before = tagStart === -1 ? "" : text.slice(0, tagStart);
    return before + pythonStrip(actions.slice(safe));
  },
});

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
