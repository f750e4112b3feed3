// Conversion of a field's text to its value: the content parsers of response templates, and the
// transform that puts a value and the named groups around it into the shape of a message.

import { JsonSyntaxError, type JsonValue, parseJson } from "../../python-semantics/json/index.ts";
import { isTruthy } from "../../python-semantics/operations.ts";
import { pythonFloat, pythonInt } from "../../python-semantics/number-text.ts";
import { PythonError } from "../../python-semantics/errors.ts";
import { pythonLower, pythonStrip } from "../../python-semantics/strings.ts";
import { readCallList } from "./call-list.ts";
import { ResponseParseError } from "./errors.ts";
import { PythonPattern } from "./python-pattern.ts";

type Arguments = ReadonlyMap<string, JsonValue>;

/** The text without white space around it, unless `strip` is false. */
function plainText(text: string, args: Arguments): string {
  return isTruthy(args.get("strip") ?? true) ? pythonStrip(text) : text;
}

/** Content parsers by the names that templates use. They throw a {@link ResponseParseError}. */
export const contentParsers: ReadonlyMap<string, (text: string, args: Arguments) => JsonValue> = new Map([
  ["text", plainText],
  ["int", (text: string, args: Arguments): JsonValue => converted(() => pythonInt(plainText(text, args)))],
  ["float", (text: string, args: Arguments): JsonValue => converted(() => pythonFloat(plainText(text, args)))],
  ["bool", (text: string, args: Arguments): JsonValue => ["true", "1"].includes(pythonLower(plainText(text, args)))],
  ["json", json],
  ["xml-inline", xmlInline],
  ["kv-lines", keyValueLines],
  ["python-call-list", (text: string): JsonValue => readCallList(text)],
]);

/** Parsers whose value is the text itself, so that pieces of it can be shown as they come. */
export const verbatimParsers: ReadonlySet<string> = new Set(["text", "int", "float", "bool"]);

function converted(convert: () => JsonValue): JsonValue {
  try {
    return convert();
  } catch (error) {
    if (error instanceof PythonError) throw new ResponseParseError(error.message);
    throw error;
  }
}

/** Placeholders for the delimiters of a string while its surroundings become JSON. */
const [opened, closed] = ["\u0001", "\u0002"];

/**
 * JSON, or nearly: `unquoted_keys`: keys may be without quotes; `string_delims`: pairs of marks
 * around strings; `allow_non_json`: text that is not JSON stays text.
 */
function json(text: string, args: Arguments): JsonValue {
  const delimiters = asList(args.get("string_delims"));
  if (delimiters.length > 0 && (text.includes(opened) || text.includes(closed))) {
    throw new ResponseParseError("json: the text holds the characters U+0001 or U+0002");
  }
  let working = text;
  const captured: string[] = [];
  for (const delimiter of delimiters) {
    const [open = null, close = null] = asList(delimiter);
    if (typeof open !== "string" || typeof close !== "string" || open === "") {
      throw new ResponseParseError('json: "string_delims" holds something other than pairs of strings');
    }
    working = withoutStrings(working, open, close, captured);
  }
  if (isTruthy(args.get("unquoted_keys") ?? false)) working = quotedKeys(working);
  // oxlint-disable-next-line no-control-regex
  working = working.replaceAll(/\u0001(\d+)\u0002/g, (_, at: string) => JSON.stringify(captured[Number(at)]));
  try {
    return parseJson(working);
  } catch (error) {
    if (!(error instanceof JsonSyntaxError)) throw error;
    // Transformers does not catch other exceptions of Python's reader either.
    if (error.pythonType === "JSONDecodeError" && isTruthy(args.get("allow_non_json") ?? false))
      return plainText(text, args);
    throw new ResponseParseError(`json: ${error.pythonMessage}`);
  }
}

function withoutStrings(text: string, open: string, close: string, captured: string[]): string {
  let written = "";
  let at = 0;
  for (;;) {
    const start = text.indexOf(open, at);
    const end = start === -1 ? -1 : text.indexOf(close, start + open.length);
    if (end === -1) return written + text.slice(at);
    written += `${text.slice(at, start)}${opened}${captured.length}${closed}`;
    captured.push(text.slice(start + open.length, end));
    at = end + close.length;
  }
}

const quotedString = /"(?:\\[^\n]|[^"\\])*"/uy;
const bareKey = new PythonPattern("(?P<before>\\s*)(?P<key>\\w+)(?P<after>\\s*):");

/** Quotes bare words between "{" or "," and a colon. Strings stay unchanged. */
function quotedKeys(text: string): string {
  let written = "";
  let at = 0;
  // If one string does not end, no later one does.
  let isOpen = false;
  while (at < text.length) {
    if (text[at] === '"' && !isOpen) {
      quotedString.lastIndex = at;
      const [found = null] = quotedString.exec(text) ?? [];
      isOpen = found === null;
      if (found !== null) {
        written += found;
        at += found.length;
        continue;
      }
    }
    const key = at > 0 && "{,".includes(text[at - 1]!) ? bareKey.matchAt(text, at) : null;
    if (key === null) {
      written += text[at]!;
      at++;
      continue;
    }
    const { captures } = key;
    written += `${captures.get("before") ?? ""}"${captures.get("key") ?? ""}"${captures.get("after") ?? ""}:`;
    at = key.end;
  }
  return written;
}

/** Compiled patterns by their sources: a template has few. */
const patterns = new Map<string, PythonPattern>();

/** Tags with a key and a value, which `tag_pattern` captures in groups of those names. */
function xmlInline(text: string, args: Arguments): JsonValue {
  const source = args.get("tag_pattern");
  if (typeof source !== "string") throw new ResponseParseError('xml-inline: "tag_pattern" is missing');
  const pattern = patterns.get(source) ?? new PythonPattern(source);
  patterns.set(source, pattern);
  if (!pattern.names.includes("key")) throw new ResponseParseError('xml-inline: "tag_pattern" has no group "key"');
  const parser = args.get("value_parser") ?? null;
  const merges = isTruthy(args.get("merge_duplicates") ?? false);
  const object = new Map<string, JsonValue>();
  const merged = new Set<string>();
  for (const { captures } of pattern.all(text)) {
    const key = captures.get("key");
    const written = captures.get("value") ?? (pattern.names.includes("value") ? undefined : "");
    if (key === undefined || written === undefined)
      throw new ResponseParseError("xml-inline: a tag has no key or no value");
    const value = parsedValue(written, parser);
    const before = object.get(key);
    if (before === undefined || !merges) object.set(key, value);
    else if (merged.has(key)) (before as JsonValue[]).push(value);
    else {
      object.set(key, [before, value]);
      merged.add(key);
    }
  }
  return object;
}

function keyValueLines(text: string, args: Arguments): JsonValue {
  const [lineSeparator, separator] = [args.get("line_sep") ?? "\n", args.get("kv_sep") ?? ":"];
  if (typeof lineSeparator !== "string" || typeof separator !== "string" || lineSeparator === "" || separator === "") {
    throw new ResponseParseError("kv-lines: a separator is empty or no string");
  }
  const object = new Map<string, JsonValue>();
  for (const written of text.split(lineSeparator)) {
    const line = plainText(written, args);
    const at = line.indexOf(separator);
    if (at === -1) continue;
    const value = plainText(line.slice(at + separator.length), args);
    object.set(plainText(line.slice(0, at), args), parsedValue(value, args.get("value_parser") ?? null));
  }
  return object;
}

function parsedValue(text: string, parser: JsonValue): JsonValue {
  if (parser === null) return text;
  const [name, args] = parser instanceof Map ? [parser.get("name") ?? "text", parser.get("args")] : [null, null];
  const parse = typeof name === "string" ? contentParsers.get(name) : undefined;
  if (parse === undefined) throw new ResponseParseError('"value_parser" names no content parser');
  return parse(text, args instanceof Map ? args : new Map());
}

/** Placeholder for a value in a transform: a name, and keys that lead into the value. */
const placeholder = new PythonPattern("\\{(?P<path>\\w+(?:\\.\\w+)*)\\}");

/** The first text of a transform that mixes a placeholder with other text; `null` if none. */
export function mixedPlaceholder(transform: JsonValue): string | null {
  if (typeof transform === "string") {
    const found = placeholder.find(transform, 0);
    return found === null || (found.start === 0 && found.end === transform.length) ? null : transform;
  }
  const parts = Array.isArray(transform) ? transform : transform instanceof Map ? [...transform.values()] : [];
  for (const part of parts) {
    const mixed = mixedPlaceholder(part);
    if (mixed !== null) return mixed;
  }
  return null;
}

/**
 * A transform with its placeholders replaced by the values of `scope`. If one is missing, throws a
 * {@link ResponseParseError}.
 */
export function applyTransform(transform: JsonValue, scope: ReadonlyMap<string, JsonValue>): JsonValue {
  if (Array.isArray(transform)) return transform.map((part) => applyTransform(part, scope));
  if (transform instanceof Map) {
    return new Map(Array.from(transform, ([key, part]) => [key, applyTransform(part, scope)] as const));
  }
  if (typeof transform !== "string") return transform;
  const found = placeholder.matchAt(transform, 0);
  if (found === null || found.end < transform.length) return transform;
  const path = found.captures.get("path") ?? "";
  let value: JsonValue = new Map(scope);
  for (const key of path.split(".")) {
    const inner: JsonValue | undefined = value instanceof Map ? value.get(key) : undefined;
    if (inner === undefined) throw new ResponseParseError(`a transform names "{${path}}", which is unknown`);
    value = inner;
  }
  return value;
}

function asList(value: JsonValue | undefined): readonly JsonValue[] {
  return Array.isArray(value) ? value : [];
}
