// Tool calls of GLM-4.5 and 4.6, `glm` too (the name ends with a newline, or the two characters
// `\n`), and of GLM-4.7 and GLM-5 (the arguments follow at once, and all text outside of calls
// stays). Arguments are key and value tags. A value is read as JSON, as JSON with escapes, as a
// Python literal, or as plain text, which is the usual meaning if the schema declares a string.

import { dumpJson, type JsonValue, parseJson } from "../../python-semantics/json/index.ts";
import {
  isDict,
  isList,
  isTruthy,
  PythonError,
  pythonFloat,
  pythonInt,
  pythonLower,
  pythonLstrip,
  pythonRstrip,
  pythonStrip,
  pythonStr,
  type PythonValue,
  unlessRaised,
} from "../../python-semantics/index.ts";
import { evaluateLiteral, literalErrors } from "../../python-semantics/literals.ts";
import type { Tool } from "../../core/index.ts";
import { argumentPairs, withoutPairs, keyClosing, keyOpening, valueClosing, valueOpening } from "./argument-tags.ts";
import { argumentTypes, jsonType, needsContext, onlyType } from "./glm-types.ts";
import { inferSchemaType } from "../typed-text.ts";
import { createToolCallParser } from "../tool-call-format.ts";
import type { ToolCallParser } from "../tool-call-parser.ts";
import { declaredParameters, toolProperties, type ToolCallScan } from "../tool-call-scan.ts";

const opening = "<tool_call>";
const closing = "</tool_call>";
/** A line feed as its escape, which some models write between tags. */
const newlineText = "\\\\n";

type Call = { readonly name: string; readonly rest: string };

type Variant = {
  /** Keeps the text between and after calls. */
  readonly withTextOutside: boolean;
  readonly readArguments: (text: string, name: string, scan: ToolCallScan) => ReadonlyMap<string, PythonValue>;
};

function createGlmParser(
  name: string,
  { withTextOutside, readArguments }: Variant,
  split: (body: string) => Call | null,
): ToolCallParser {
  return createToolCallParser({
    name,
    markers: [opening, closing, keyOpening, keyClosing, valueOpening, valueClosing],
    hints: {
      nesting: { [opening]: closing, [valueOpening]: valueClosing },
    },
    opening,
    isAllOrNothing: true,
    detect: (text, scan, first) => {
      const outside = scan.outside(text, [opening, closing], (body) => {
        const call = split(body);
        if (call === null) scan.report("unterminated-call", body, "A newline must follow the name of the tool.");
        else scan.add(scan.named(call.name, readArguments(call.rest, call.name, scan), body));
      });
      return pythonStrip(withTextOutside ? outside : text.slice(0, first));
    },
  });
}

export const glm45 = createGlmParser("glm45", { withTextOutside: false, readArguments: readArguments45 }, (body) => {
  const newline = /\\n|\n/.exec(body);
  if (newline === null) return null;
  return { name: body.slice(0, newline.index), rest: body.slice(newline.index + newline[0].length) };
});

export const glm47 = createGlmParser("glm47", { withTextOutside: true, readArguments: readArguments47 }, (body) => {
  const start = body.indexOf(keyOpening);
  return start === -1 ? { name: body, rest: "" } : { name: body.slice(0, start), rest: body.slice(start) };
});

/**
 * Ling 3: GLM-4.5's calls, except that the line feed after the name may be missing and white space
 * around the name is ignored.
 */
export const ling3 = createGlmParser("ling3", { withTextOutside: false, readArguments: readArguments45 }, (body) => {
  const bare = pythonLstrip(body);
  const at = bare.indexOf(keyOpening);
  const end = at === -1 ? bare.length : at;
  const name = pythonRstrip(bare.slice(0, end));
  const newline = bare.slice(name.length, end).indexOf("\n");
  const nameEnd = name.endsWith("\\n") ? name.length - 2 : newline === -1 ? end : name.length + newline;
  return { name: bare.slice(0, nameEnd), rest: bare.slice(end) };
});

const iquestOpening = "<iquest_tool_call>";
const iquestClosing = "</iquest_tool_call>";

/**
 * IQuest Q1: GLM-4.7's arguments in tags of its own. A block with any other content stays in the
 * text; calls are numbered.
 */
export const iquestQ1 = createToolCallParser({
  name: "iquest_q1",
  markers: [iquestOpening, iquestClosing, keyOpening, keyClosing, valueOpening, valueClosing],
  hints: { contentEnd: [iquestOpening], nesting: { [iquestOpening]: iquestClosing, [valueOpening]: valueClosing } },
  opening: null,
  hasToolCall: (text) => text.includes(iquestOpening),
  detect: (text, scan) => {
    let normalText = "";
    let rest = 0;
    for (const { start, body, end } of scan.blocks(text, iquestOpening, iquestClosing)) {
      const at = body.indexOf(keyOpening);
      const name = pythonStrip(at === -1 ? body : body.slice(0, at));
      const source = at === -1 ? "" : body.slice(at);
      const found = [...argumentPairs(source, newlineText)];
      if (
        name === "" ||
        pythonStrip(withoutPairs(source, newlineText)) !== "" ||
        found.some(([key]) => pythonStrip(key) === "")
      ) {
        scan.report("unterminated-call", body, "The call holds something beside its name and its arguments.");
        continue;
      }
      const parameters = new Map(readArguments47(source, name, scan));
      for (const [key, value] of found.map(([raw, text47]) => [pythonStrip(raw), text47] as const)) {
        const types = argumentTypes([name, key], scan.tools, { known: parameters });
        if (onlyType(types) === "string") parameters.set(key, value);
      }
      for (const call of scan.named(name, parameters, body)) scan.add([{ ...call, toolIndex: scan.calls.length }]);
      normalText += text.slice(rest, start);
      rest = end;
    }
    return normalText + text.slice(rest);
  },
});

/**
 * GLM-4.5: the declared type decides; a value that is not a string becomes one if the schema
 * declares a string.
 */
function readArguments45(text: string, name: string, scan: ToolCallScan): ReadonlyMap<string, PythonValue> {
  const properties = toolProperties(scan.tool(name));
  const result = new Map<string, PythonValue>();
  for (const [rawKey, rawValue] of argumentPairs(text, newlineText)) {
    const key = pythonStrip(rawKey);
    const type = inferSchemaType(properties.get(key));
    const value = readValue(rawValue, type, type === "number" ? numberOr : String);
    result.set(key, type === "string" && typeof value !== "string" ? asText(value) : value);
  }
  return result;
}

/**
 * GLM-4.7: a value stays text if the schema allows a string but not the type that the text reads
 * as.
 */
function readArguments47(text: string, name: string, scan: ToolCallScan): ReadonlyMap<string, PythonValue> {
  const found = [...argumentPairs(text, newlineText)].map(([key, value]): readonly [string, string] => [
    pythonStrip(key),
    value,
  ]);
  const known = new Map<string, PythonValue>();
  const isOpen =
    found.length > 1 && scan.tools.some((tool) => tool.name === name && needsContext(declaredParameters(tool)));
  // Values of unambiguous type come first: they decide between alternatives for the others.
  for (const [key, raw] of isOpen ? found : []) {
    const value = readDeclared(raw, [name, key], { tools: scan.tools, known: new Map() });
    const types = argumentTypes([name, key], scan.tools, { value: raw });
    if (typeof value === "string" || types === null || !types.has("string")) known.set(key, value);
  }
  const result = new Map<string, PythonValue>();
  for (const [key, raw] of found) {
    const value = readDeclared(raw, [name, key], { tools: scan.tools, known });
    result.set(key, value);
    known.set(key, value);
  }
  return result;
}

function readDeclared(
  raw: string,
  argument: readonly [tool: string, key: string],
  { tools, known }: { readonly tools: readonly Tool[]; readonly known: ReadonlyMap<string, PythonValue> },
): PythonValue {
  const type = onlyType(argumentTypes(argument, tools, { known }));
  const isOpen = type === null;
  const value = readValue(raw, isTruthy(type) ? type : "string", (quoted) =>
    type === "number" ? numberOr(quoted) : type === "integer" ? integerOr(quoted) : quoted,
  );
  if (type === "string") return typeof value === "string" ? value : raw;
  if (!isOpen) return value;
  const allowed = argumentTypes(argument, tools, { known, value });
  const written = argumentTypes(argument, tools, { known, value: raw });
  const isRefused = allowed !== null && !allowed.has(jsonType(value)) && written?.has("string") === true;
  return isRefused ? raw : value;
}

/**
 * Readings to try in turn; a value that Python refuses with one of these exception classes goes to
 * the next.
 */
const readings: readonly (readonly [refusals: readonly string[], read: (text: string) => PythonValue])[] = [
  [["JSONDecodeError", "ValueError"], parseJson],
  [["JSONDecodeError", "ValueError"], parseEscapedJson],
  [literalErrors, evaluateLiteral],
];

/** `quoted` reads the value further if JSON yields a string. */
function readValue(text: string, type: JsonValue, quoted: (text: string) => PythonValue): PythonValue {
  for (const [refusals, read] of readings) {
    if (read === evaluateLiteral && type === "string") return withoutQuotes(text);
    const value = unlessRaised(refusals, () => read(text));
    if (value === undefined) continue;
    return typeof value === "string" && read !== evaluateLiteral ? quoted(value) : value;
  }
  return text;
}

function withoutQuotes(text: string): string {
  const isQuoted = text.length >= 2 && text[0] === text.at(-1) && (text[0] === '"' || text[0] === "'");
  return isQuoted ? text.slice(1, -1) : text;
}

/**
 * Reads the value as the body of a JSON string that contains JSON; text that breaks out of that
 * string is read as the reference reads it.
 */
function parseEscapedJson(text: string): JsonValue {
  const wrapped = parseJson(`{"tmp": "${text}"}`);
  const inner = wrapped instanceof Map ? wrapped.get("tmp") : undefined;
  if (typeof inner !== "string") throw new PythonError("TypeError", "JSON can be read from a text only");
  return parseJson(inner);
}

function numberOr(text: string): PythonValue {
  const isFloat = text.includes(".") || pythonLower(text).includes("e");
  const number = unlessRaised(null, () => (isFloat ? pythonFloat(text) : pythonInt(text)));
  return number === undefined ? text : number;
}

function integerOr(text: string): PythonValue {
  const number = unlessRaised(["ValueError"], () => pythonInt(text));
  return number === undefined ? text : number;
}

function asText(value: PythonValue): string {
  return isDict(value) || isList(value) ? dumpJson(value) : pythonStr(value);
}
