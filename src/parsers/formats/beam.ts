// Beam: Harmony's channels with calls in XML. An unclosed call is dropped. Values are converted to
// the types in the tool's schema where possible.

import { dumpJson, type JsonValue, parseJson } from "../../python-semantics/json/index.ts";
import { pythonInt, pythonStrip, unlessRaised } from "../../python-semantics/index.ts";
import { type ReasoningParser, silentStep } from "../reasoning-parser.ts";
import { parameterTypes, readAsType } from "../schema-types.ts";
import { createToolCallParser } from "../tool-call-format.ts";
import { declaredParameters, type ToolCallScan } from "../tool-call-scan.ts";
import { valueType } from "../typed-text.ts";

const thought = "<|channel|>analysis<|message|>";
const answer = "<|channel|>final<|message|>";
const nextMessage = "<|start|>assistant";
const messageEnd = "<|end|>";
const turnEnd = messageEnd + nextMessage;
const callEnd = "<|call|>";
const callHeader = / to=([^\p{White_Space}<]+)<\|channel\|>analysis <\|constrain\|>xml<\|message\|>/gu;
const parameterOpening = '<rfl:parameter name="';
const parameterClosing = "</rfl:parameter>";

type Region = {
  readonly kind: "thought" | "answer" | "call";
  readonly start: number;
  /** Tool name of a call; unused for other kinds. */
  readonly name: string;
  readonly bodyStart: number;
  readonly bodyEnd: number;
  readonly end: number;
  readonly isClosed: boolean;
};

const fixedOpenings = [["thought", thought], ["answer", answer]] as const; // prettier-ignore
const closers = { thought: [turnEnd], answer: ["<|return|>", messageEnd, callEnd], call: [turnEnd, callEnd] } as const;

/**
 * The regions in order. A message counts as closed if the only missing text is the beginning of the
 * next one.
 */
function* regionsOf(written: string, kinds: readonly Region["kind"][]): Generator<Region> {
  const text = written + missingBeginning(written);
  const next = placesIn(text);
  const nextCall = (from: number): Opening | null => {
    callHeader.lastIndex = from;
    const found = callHeader.exec(text);
    return found && { kind: "call", start: found.index, name: found[1]!, bodyStart: found.index + found[0].length };
  };
  let call = nextCall(0);
  for (let at = 0; ;) {
    if (call !== null && call.start < at) call = nextCall(at);
    const openings: Opening[] = call === null ? [] : [call];
    for (const [kind, opening] of fixedOpenings) {
      const start = kinds.includes(kind) ? next(opening, at) : Infinity;
      if (start !== Infinity) openings.push({ kind, start, name: "", bodyStart: start + opening.length });
    }
    const [first] = openings.toSorted((left, right) => left.start - right.start);
    if (first === undefined) return;
    const [end] = closers[first.kind]
      .map((closer) => ({ closer, start: next(closer, first.bodyStart) }))
      .toSorted((left, right) => left.start - right.start || right.closer.length - left.closer.length);
    const isClosed = end!.start !== Infinity;
    at = isClosed ? end!.start + end!.closer.length : text.length;
    // Added text belongs to a closing that fits, or to nothing.
    yield { ...first, bodyEnd: isClosed ? end!.start : written.length, end: at, isClosed };
  }
}

type Opening = Pick<Region, "kind" | "start" | "name" | "bodyStart">;

/**
 * Finds the next occurrence of a string, from positions that only grow; `Infinity` if none. No part
 * of the text is searched twice for one string.
 */
function placesIn(text: string): (sought: string, from: number) => number {
  const known = new Map<string, number>();
  return (sought, from) => {
    let place = known.get(sought) ?? -1;
    if (place < from) {
      const found = text.indexOf(sought, from);
      place = found === -1 ? Infinity : found;
      known.set(sought, place);
    }
    return place;
  };
}

function missingBeginning(text: string): string {
  for (let length = nextMessage.length - 1; length >= 0; length--) {
    if (text.endsWith(messageEnd + nextMessage.slice(0, length))) return nextMessage.slice(length);
  }
  return "";
}

export const beam = createToolCallParser({
  name: "beam",
  markers: [parameterOpening, parameterClosing, callEnd],
  hints: { contentEnd: [" to="], nesting: { "<|constrain|>xml<|message|>": callEnd } },
  opening: null,
  hasToolCall: (text) => !regionsOf(text, ["call"]).next().done,
  detect: (text, scan) => {
    let outside = "";
    let rest = 0;
    for (const region of regionsOf(text, ["call"])) {
      outside += text.slice(rest, region.start);
      rest = region.end;
      const source = text.slice(region.start, region.end);
      if (!region.isClosed) scan.report("unterminated-call", source, `The call does not end with ${callEnd}.`);
      else if (scan.isCallable(region.name, source)) {
        const values = readParameters(text.slice(region.bodyStart, region.bodyEnd), region.name, scan);
        scan.add([scan.call(region.name, dumpJson(values), scan.calls.length)]);
      }
    }
    return outside + text.slice(rest);
  },
});

const parameterEnd = /\n(?:<\/rfl:parameter>|(?=<rfl:parameter name="))/g;

function readParameters(body: string, tool: string, scan: ToolCallScan): Map<string, JsonValue> {
  const values = new Map<string, JsonValue>();
  for (let at = body.indexOf(parameterOpening); at !== -1;) {
    const keyStart = at + parameterOpening.length;
    const keyEnd = body.indexOf('"', keyStart);
    if (keyEnd === -1) break;
    if (keyEnd === keyStart || !body.startsWith('">\n', keyEnd)) {
      at = body.indexOf(parameterOpening, at + 1);
      continue;
    }
    const valueStart = keyEnd + '">\n'.length;
    parameterEnd.lastIndex = valueStart;
    const end = parameterEnd.exec(body);
    if (end === null) break;
    values.set(body.slice(keyStart, keyEnd), body.slice(valueStart, end.index));
    at = body.indexOf(parameterOpening, end.index + end[0].length);
  }
  const parameters = declaredParameters(scan.tool(tool));
  const properties = parameters instanceof Map ? parameters.get("properties") : undefined;
  if (!(parameters instanceof Map) || !(properties instanceof Map)) return values;
  for (const [key, text] of values) {
    const types = properties.has(key) ? parameterTypes(properties.get(key), parameters) : [];
    if (types.length > 0 && typeof text === "string") values.set(key, typedText(text, types));
  }
  return values;
}

const jsonErrors = ["JSONDecodeError", "ValueError", "RecursionError"];

/**
 * Converts the text to the first of the types that it fits. If strings are allowed, it becomes
 * another type only if it is exactly the JSON of one.
 */
function typedText(text: string, types: readonly string[]): JsonValue {
  let tried = types;
  if (types.includes("string") && types.some((type) => type !== "string")) {
    const value = unlessRaised(jsonErrors, () => parseJson(text));
    if (value === undefined || text !== pythonStrip(text)) return text;
    const own = valueType(value);
    tried = types.filter((type) => type === own || (own === "integer" && type === "number"));
  }
  for (const type of tried) {
    const value = unlessRaised(jsonErrors, () => asType(text, type));
    if (value !== undefined) return value;
  }
  return text;
}

/** A number without a fraction is read as an integer of any size. */
function asType(text: string, type: string): JsonValue | undefined {
  const integer = type === "number" ? unlessRaised(["ValueError"], () => pythonInt(text)) : undefined;
  return integer ?? readAsType(text, type);
}

/** Text outside of messages is not shown; calls stay as the model wrote them. */
export const beamReasoning: ReasoningParser = {
  name: "beam",
  markers: [thought, turnEnd],
  hasTags: false,
  split: (text) => {
    let [reasoning, normalText] = ["", ""];
    for (const { kind, start, bodyStart, bodyEnd, end, isClosed } of regionsOf(text, ["thought", "answer", "call"])) {
      if (kind === "thought") reasoning += text.slice(bodyStart, bodyEnd);
      else if (kind === "answer") normalText += text.slice(bodyStart, bodyEnd);
      else normalText += isClosed && end > text.length ? text.slice(start, bodyEnd) + turnEnd : text.slice(start, end);
    }
    return { reasoning, normalText };
  },
  startSplitting: () => silentStep,
};
