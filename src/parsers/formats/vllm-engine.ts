// Tool calls that vLLM 0.33.0 reads with a state machine over markers (`vllm/parser/engine`), and
// SGLang does not: Granite 3 and PLaMo 3. Calls of unknown tools are accepted, and arguments are
// converted to the types that the tool declares.

import { dumpJson, JsonFloat, type JsonObject, type JsonValue, parseJson } from "../../python-semantics/json/index.ts";
import {
  integerOf,
  PythonError,
  pythonFloat,
  pythonInt,
  pythonLower,
  pythonStrip,
  unlessRaised,
  verbatim,
} from "../../python-semantics/index.ts";
import { createToolCallParser } from "../tool-call-format.ts";
import { declaredParameters, guessName, type ToolCallScan } from "../tool-call-scan.ts";
import { valueType } from "../typed-text.ts";
import { plamoMarkers, plamoStart, plamoTags, withoutOpenMarker } from "./plamo-markers.ts";

/** A call before its arguments are read: the engine takes a name from the body if there is none. */
type Slot = { name: string; body: string };

const writtenName = /"name"\p{White_Space}*:\p{White_Space}*"([^"]*)"/u;

/** The first name that the body writes; "" if there is none. */
const nameIn = (body: string): string => writtenName.exec(body)?.[1] ?? "";

/** Adds the calls of all slots. Raises for a name that is not a string. */
function addSlots(slots: readonly Slot[], argumentsIn: (body: string) => string, scan: ToolCallScan): void {
  for (const { name: marked, body } of slots) {
    if (marked === "" && body === "") continue;
    const name = pythonStrip(marked);
    const isBlank = pythonStrip(body) === "";
    const [called, text] =
      name === "" && !isBlank ? nameAndArguments(body) : [name, isBlank ? "{}" : argumentsIn(body)];
    if (typeof called !== "string" && called !== null) {
      scan.report("no-name", body, 'The "name" of a call must be a string.');
      if (isFalsy(called)) continue;
      throw new PythonError("ValidationError", "a name that is no string");
    }
    if (called === null || called === "") {
      const isJson = unlessRaised(["JSONDecodeError"], () => parseJson(pythonStrip(body))) !== undefined;
      if (isJson) scan.report("no-name", body, 'The call has no "name".');
      else scan.report("not-json", body, "The call is not valid JSON.", guessName(body));
      continue;
    }
    scan.reportUnknown(called, body);
    scan.add([scan.call(called, asDeclared(text, called, scan))]);
  }
}

const isFalsy = (value: JsonValue): boolean =>
  value === false || value === 0 || (value instanceof JsonFloat && value.value === 0) || sizeOf(value) === 0;
const sizeOf = (value: JsonValue): number | null =>
  Array.isArray(value) ? value.length : value instanceof Map ? value.size : null;

/** Name and arguments of a body that is JSON; no name, and the text itself, for any other. */
function nameAndArguments(body: string): readonly [name: JsonValue, text: string] {
  const text = pythonStrip(body);
  const value = unlessRaised(["JSONDecodeError"], () => parseJson(text));
  if (!(value instanceof Map)) return ["", text];
  const name = value.get("name") ?? (value.has("name") ? null : "");
  for (const key of ["arguments", "parameters"]) {
    const given = value.get(key);
    if (given !== undefined) return [name, typeof given === "string" ? given : dumpJson(given)];
  }
  value.delete("name");
  return [name, dumpJson(value)];
}

// Conversion to declared types.

/** The arguments with values of the types that the tool declares; unchanged if nothing differs. */
function asDeclared(text: string, name: string, scan: ToolCallScan): string {
  if (scan.tools.length === 0) return text;
  const value = unlessRaised(["JSONDecodeError", "ValueError"], () => parseJson(text));
  if (!(value instanceof Map)) return text;
  const declared = declaredParameters(scan.tools.find((tool) => tool.name === name));
  const properties = declared instanceof Map ? declared.get("properties") : undefined;
  if (!(properties instanceof Map)) return text;
  return convertEntries(value, properties) ? dumpJson(value) : text;
}

/** Converts in place; true if a value has changed. */
function convertEntries(values: JsonObject, properties: JsonObject): boolean {
  let hasChanged = false;
  for (const [key, value] of values) {
    const schema = properties.get(key);
    if (!(schema instanceof Map)) continue;
    const converted = convert(value, schema);
    if (converted === undefined) continue;
    values.set(key, converted);
    hasChanged = true;
  }
  return hasChanged;
}

/** The value of a declared type; `undefined` if it is unchanged. */
function convert(value: JsonValue, schema: JsonObject): JsonValue | undefined {
  if (value instanceof Map) {
    const properties = schema.get("properties");
    return properties instanceof Map && convertEntries(value, properties) ? value : undefined;
  }
  if (Array.isArray(value)) {
    const items = schema.get("items");
    if (!(items instanceof Map)) return undefined;
    let hasChanged = false;
    for (const [index, item] of value.entries()) {
      const converted = convert(item, items);
      if (converted === undefined) continue;
      value[index] = converted;
      hasChanged = true;
    }
    return hasChanged ? value : undefined;
  }
  const text = typeof value === "string" ? value : dumpJson(value);
  const converted = readAs(text, allowedTypes(schema));
  return isSame(converted, value) ? undefined : converted;
}

function isSame(left: JsonValue, right: JsonValue): boolean {
  if (left instanceof JsonFloat && right instanceof JsonFloat) return left.value === right.value;
  return left === right;
}

const aliases: ReadonlyMap<string, string> = new Map([
  ...["str", "text", "varchar", "char", "enum"].map((name) => [name, "string"] as const),
  ...["int", "int32", "int64", "uint", "uint32", "uint64", "long", "short", "unsigned"].map(
    (name) => [name, "integer"] as const,
  ),
  ...["float", "float32", "float64", "double"].map((name) => [name, "number"] as const),
  ["bool", "boolean"],
  ["dict", "object"],
  ...["arr", "list", "sequence"].map((name) => [name, "array"] as const),
]);

/** The types that a schema names, its enum has, or its choices allow; "string" if there are none. */
function allowedTypes(schema: JsonValue): ReadonlySet<string> {
  const types = new Set<string>();
  if (schema instanceof Map) {
    const type = schema.get("type");
    for (const name of Array.isArray(type) ? type : [type]) if (typeof name === "string") types.add(name);
    const values = schema.get("enum");
    if (Array.isArray(values)) for (const value of values) types.add(valueType(value));
    for (const choice of ["anyOf", "oneOf", "allOf"]) {
      const choices = schema.get(choice);
      if (!Array.isArray(choices)) continue;
      for (const each of choices) for (const name of allowedTypes(each)) types.add(name);
    }
  }
  return types.size === 0 ? new Set(["string"]) : types;
}

const readings: readonly (readonly [type: string, read: (text: string) => JsonValue | undefined])[] = [
  ["null", (text) => (pythonLower(text) === "null" ? null : undefined)],
  ["integer", (text) => unlessRaised(["ValueError"], () => pythonInt(text))],
  ["number", readNumber],
  ["boolean", readSwitch],
  ["object", readFinite],
  ["array", readFinite],
  ["string", (text) => text],
];

/** The text as the first of the types that it fits, in a fixed order. */
function readAs(text: string, types: ReadonlySet<string>): JsonValue {
  const names = new Set(
    Array.from(types, (type) => {
      const name = pythonLower(pythonStrip(type));
      return aliases.get(name) ?? name;
    }),
  );
  for (const [type, read] of readings) {
    const value = names.has(type) ? read(text) : undefined;
    if (value !== undefined) return value;
  }
  const value = readFinite(text);
  return value === undefined ? text : value;
}

function readNumber(text: string): JsonValue | undefined {
  const integer = unlessRaised(["ValueError"], () => pythonInt(text));
  if (integer !== undefined) return integer;
  const float = unlessRaised(["ValueError"], () => pythonFloat(text));
  if (float === undefined || !Number.isFinite(float.value)) return undefined;
  return Number.isInteger(float.value) ? integerOf(float.value) : float;
}

function readSwitch(text: string): boolean | undefined {
  const word = pythonStrip(pythonLower(text));
  return ["true", "1"].includes(word) ? true : ["false", "0"].includes(word) ? false : undefined;
}

function readFinite(text: string): JsonValue | undefined {
  const value = unlessRaised(["JSONDecodeError", "ValueError"], () => parseJson(text));
  return value !== undefined && isFinite(value) ? value : undefined;
}

function isFinite(value: JsonValue): boolean {
  if (value instanceof JsonFloat) return Number.isFinite(value.value);
  if (Array.isArray(value)) return value.every(isFinite);
  return value instanceof Map ? [...value.values()].every(isFinite) : true;
}

// Granite 3: a JSON list after a marker, without an end of its own.

const graniteToken = "<|tool_call|>";
const graniteWord = "<tool_call>";
const graniteMarker = /<\|tool_call\|>|<tool_call>/g;

/** Text after the first call is dropped. */
export const granite = createToolCallParser({
  name: "granite",
  markers: [graniteToken],
  hints: { contentEnd: [graniteToken, graniteWord] },
  opening: null,
  signs: [graniteToken, graniteWord],
  hasToolCall: (text) => text.includes(graniteToken) || text.includes(graniteWord),
  detect: (text, scan) => {
    const slots: Slot[] = [];
    let before = "";
    let behind = "";
    const say = (words: string): void => {
      if (slots.length === 0) before += words;
      else behind += words;
    };
    let at = 0;
    for (;;) {
      graniteMarker.lastIndex = at;
      const marker = graniteMarker.exec(text);
      say(text.slice(at, marker?.index));
      if (marker === null) break;
      const list = readList(text, marker.index + marker[0].length, slots);
      at = list.end;
      if (list.unread === null) continue;
      scan.report("not-json", list.unread, "After the marker comes a JSON list of calls.");
      // A marker in the place of the list or of a call is content.
      graniteMarker.lastIndex = at;
      const next = graniteMarker.exec(text);
      if (next?.index !== at) continue;
      say(next[0]);
      at += next[0].length;
    }
    addSlots(slots, graniteArguments, scan);
    const hasName = slots.some(({ name }) => name !== "");
    const content = hasName ? before : before + behind;
    if (scan.calls.length > 0) return pythonStrip(content);
    return slots.length > 0 && pythonStrip(content) === "" ? "" : content;
  },
});

const listBlank = /[ \t\r\n]*/y;
const listComma = /[ \t\r\n,]*/y;

/** Adds each object of a list. What is not a list of objects is content from there on. */
function readList(
  text: string,
  start: number,
  slots: Slot[],
): { readonly end: number; readonly unread: string | null } {
  const skip = (pattern: RegExp, from: number): number => {
    pattern.lastIndex = from;
    pattern.exec(text);
    return pattern.lastIndex;
  };
  const opening = skip(listBlank, start);
  if (text[opening] !== "[") return { end: opening, unread: text.slice(start) };
  let at = opening + 1;
  for (;;) {
    at = skip(listComma, at);
    if (text[at] === "]") return { end: at + 1, unread: null };
    if (text[at] !== "{") return { end: at, unread: at < text.length ? text.slice(at) : null };
    const end = objectEnd(text, at);
    const body = text.slice(at, end);
    slots.push({ name: nameIn(body), body });
    at = end;
  }
}

/** The end of an object: brackets of both kinds count, those in strings do not. */
function objectEnd(text: string, start: number): number {
  let depth = 0;
  for (const { 0: piece, index } of text.slice(start).matchAll(objectPiece)) {
    if (piece === "{" || piece === "[") depth++;
    else if (piece === "}" || piece === "]") {
      depth = Math.max(0, depth - 1);
      if (piece === "}" && depth === 0) return start + index + 1;
    }
  }
  return text.length;
}

/** A bracket, or a string, perhaps without its end. */
const objectPiece = /[{}[\]]|"(?:[^"\\]+|\\[^])*(?:"|\\?$)/g;

/** The arguments as they are written, perhaps without their end; those of other types as JSON. */
function graniteArguments(body: string): string {
  const span = memberObject(body, "arguments");
  return span === "other" ? nameAndArguments(body)[1] : (span?.text ?? "{}");
}

/** The value of a member at the top of an object; `null` if there is none yet, "other" if it is not an object. */
function memberObject(body: string, key: string): { readonly text: string } | "other" | null {
  let depth = 0;
  let last: string | null = null;
  for (const { 0: piece, index } of body.matchAll(memberPiece)) {
    if (piece === "{" || piece === "[") depth++;
    else if (piece === "}" || piece === "]") depth--;
    else if (piece !== ":") {
      if (depth === 1) last = piece.slice(1, -1);
    } else if (depth === 1 && last === key) {
      const start = index + 1 + /^[ \t\r\n]*/.exec(body.slice(index + 1))![0].length;
      if (start >= body.length) return null;
      return body[start] === "{" ? { text: body.slice(start, bracesEnd(body, start)) } : "other";
    }
  }
  return null;
}

const memberPiece = /[{}[\]:]|"(?:[^"\\]+|\\[^])*(?:"|\\?$)/g;

/** The end of an object of which only braces count. */
function bracesEnd(text: string, start: number): number {
  let depth = 0;
  for (const { 0: piece, index } of text.slice(start).matchAll(memberPiece)) {
    if (piece === "{") depth++;
    if (piece === "}" && --depth === 0) return start + index + 1;
  }
  return text.length;
}

// PLaMo 3: each part of a call between two markers.

const { requests, requestsEnd, request, requestEnd, toolName, toolNameEnd } = plamoTags;
const { toolArguments, toolArgumentsEnd, thought, thoughtEnd, turnEnd } = plamoTags;
const plamoMarker = new RegExp(plamoMarkers.map(verbatim).join("|"), "g");

type Place = "content" | "reasoning" | "calls" | "name" | "arguments" | "after-arguments";

/** Where each marker leads from a place; elsewhere a marker is text. */
const steps: Readonly<Record<Place, ReadonlyMap<string, Place>>> = {
  content: new Map([[thought, "reasoning"], [thoughtEnd, "content"], [requests, "calls"], [turnEnd, "content"]]),
  reasoning: new Map([[thought, "reasoning"], [thoughtEnd, "content"], [requests, "calls"], [turnEnd, "content"]]),
  calls: new Map([[request, "calls"], [toolName, "name"], [toolArguments, "arguments"], [requestsEnd, "content"], [turnEnd, "content"]]),
  name: new Map([[toolNameEnd, "calls"], [turnEnd, "content"]]),
  arguments: new Map([[toolArgumentsEnd, "after-arguments"], [turnEnd, "content"]]),
  "after-arguments": new Map([[requestEnd, "calls"], [turnEnd, "content"]]),
}; // prettier-ignore

/** Text after the first call is dropped, and so are thoughts. */
export const plamo3 = createToolCallParser({
  name: "plamo3",
  markers: plamoMarkers.slice(0, -3),
  hints: {
    contentEnd: [plamoStart],
    callEnds: [requestEnd],
    nesting: {
      [requests]: requestsEnd,
      [request]: requestEnd,
      [toolName]: toolNameEnd,
      [toolArguments]: toolArgumentsEnd,
    },
  },
  opening: null,
  hasToolCall: (text) => text.includes(requests),
  plainText: withoutThoughts,
  detect: (text, scan) => {
    const slots: Slot[] = [];
    let place: Place = "content";
    let [before, behind] = ["", ""];
    /** The text of the current name or arguments. */
    let part = "";
    let hasNamed = false;
    const current = (): Slot => slots.at(-1) ?? raiseIndexError(text, scan);
    const name = (slot: Slot): void => {
      if (slot.name === "") slot.name = nameIn(slot.body);
      hasNamed ||= slot.name !== "";
    };
    const leave = (): void => {
      if (place === "name") current().name += withoutOpenMarker(part);
      if (place === "arguments" && part !== "") {
        const slot = current();
        slot.body += withoutTrailingMarker(slot.body, part);
        name(slot);
      }
      part = "";
    };
    const take = (words: string): void => {
      if (place === "name" || place === "arguments") part += words;
      else if (place === "content" && slots.length === 0) before += words;
      else if (place === "content") behind += words;
    };
    let at = 0;
    for (const { 0: marker, index } of text.matchAll(plamoMarker)) {
      take(text.slice(at, index));
      at = index + marker.length;
      const next: Place | undefined = steps[place].get(marker);
      if (next === undefined) {
        take(marker);
        continue;
      }
      leave();
      if (next === "name") slots.push({ name: "", body: "" });
      if (place === "after-arguments" && next === "calls") name(current());
      place = next;
    }
    take(text.slice(at));
    leave();
    if (place !== "content" && place !== "reasoning" && slots.length > 0) name(current());
    addSlots(slots, (body) => pythonStrip(body), scan);
    const content = hasNamed ? before : before + behind;
    const isBlank = pythonStrip(content) === "";
    if (isBlank && slots.length > 0) return "";
    const shown = withoutOpenMarker(content);
    return scan.calls.length > 0 && pythonStrip(shown) === "" ? "" : shown;
  },
});

/** A text without calls: what is said outside of thoughts. */
function withoutThoughts(text: string): string {
  let content = "";
  let place: Place = "content";
  let at = 0;
  for (const { 0: marker, index } of text.matchAll(plamoMarker)) {
    const next: Place | undefined = steps[place].get(marker);
    if (place === "content") content += text.slice(at, next === undefined ? index + marker.length : index);
    at = index + marker.length;
    place = next ?? place;
  }
  return withoutOpenMarker(place === "content" ? content + text.slice(at) : content);
}

function raiseIndexError(text: string, scan: ToolCallScan): never {
  scan.report("no-name", text, "The arguments of a call must follow its name.");
  throw new PythonError("IndexError", "arguments without a call");
}

/** Arguments without a marker at their end, if they are JSON without it. */
function withoutTrailingMarker(before: string, text: string): string {
  const start = text.lastIndexOf(plamoStart);
  if (start === -1) return text;
  const rest = text.slice(0, start);
  return unlessRaised(["JSONDecodeError", "ValueError"], () => parseJson(before + rest)) === undefined ? text : rest;
}
