// Tool calls of Hunyuan 3 and 4 as vLLM 0.33.0 reads them, with calls of unknown tools (`hy_v3`,
// `hy_v4`). SGLang's `hunyuan` reads the same tags. A checkpoint may add a suffix to the names of
// all its tags, which is read from the tag that opens the calls.

import { dumpJson, type JsonObject, parseJson } from "../../python-semantics/json/index.ts";
import {
  PythonError,
  pythonExceptionType,
  pythonStrip,
  type PythonValue,
  unlessRaised,
} from "../../python-semantics/index.ts";
import { evaluateLiteral } from "../../python-semantics/literals.ts";
import { blocksBetween } from "../text-pieces.ts";
import { createToolCallParser, type ToolCallFormat } from "../tool-call-format.ts";
import { declaredParameters, type ToolCallScan } from "../tool-call-scan.ts";
import { argumentPairs, keyClosing, keyOpening, valueClosing, valueOpening, withoutPairs } from "./argument-tags.ts";
import { normalType, optionsOf, readValue } from "./hunyuan.ts";

const section = "<tool_calls>";
const sectionEnd = "</tool_calls>";
const opening = "<tool_call>";
const closing = "</tool_call>";
const separator = "<tool_sep>";

const sectionStart = /<tool_calls(:[\w-]{1,64})?>/;

/** A tag with the suffix of a checkpoint. */
const tagWith = (suffix: string) => (tag: string) => `${tag.slice(0, -1)}${suffix}>`;
type Tag = ReturnType<typeof tagWith>;

const shared = {
  markers: [section, sectionEnd, opening, closing, keyOpening, keyClosing, valueOpening, valueClosing],
  hints: { contentEnd: ["<tool_calls"], nesting: { [opening]: closing, [valueOpening]: valueClosing } },
  opening: null,
  signs: ["<tool_calls"],
  hasToolCall: (text: string) => sectionStart.test(text),
} satisfies Partial<ToolCallFormat>;

/**
 * A call needs the separator, and the last one no end. One value that cannot be read drops all
 * calls.
 */
export const hyV3 = createToolCallParser({
  ...shared,
  name: "hy_v3",
  markers: [...shared.markers, separator],
  detect: (text, scan) => {
    const start = sectionStart.exec(text);
    if (start === null) return text;
    const [, suffix = ""] = start;
    try {
      scan.add([...separatedCalls(text, tagWith(suffix))].map((call) => readCall(call, { scan, suffix, between: "" })));
    } catch (error) {
      if (pythonExceptionType(error) === null) throw error;
      scan.report("not-json", text.slice(start.index), "The calls cannot be read with the schemas of the tools.");
    }
    return text.slice(0, start.index);
  },
});

/** One tag in the wrong place drops all calls. */
export const hyV4 = createToolCallParser({
  ...shared,
  name: "hy_v4",
  isAllOrNothing: true,
  detect: (text, scan) => {
    const start = sectionStart.exec(text);
    if (start === null) return text;
    const [, suffix = ""] = start;
    const source = text.slice(start.index);
    const fail = (detail: string): never => {
      scan.report("unterminated-call", source, detail);
      throw new PythonError("ValueError", "a malformed call");
    };
    const tag = tagWith(suffix);
    const end = text.indexOf(tag(sectionEnd));
    if (end < start.index) return fail(`The calls must end with ${tag(sectionEnd)}.`);
    const block = text.slice(start.index + start[0].length, end);
    const bodies = [...blocksBetween(block, tag(opening), tag(closing))];
    const counts = [tag(opening), tag(closing)].map((each) => count(block, each));
    if (bodies.length === 0 || counts.some((each) => each !== bodies.length)) {
      return fail(`Each ${tag(opening)} must end with ${tag(closing)}.`);
    }
    const calls = bodies.map(({ body }) => {
      const at = body.indexOf(tag(keyOpening));
      const name = pythonStrip(at === -1 ? body : body.slice(0, at));
      if (name === "") return fail("A call must begin with its name.");
      const rest = at === -1 ? "" : pythonStrip(body.slice(at));
      const pairs = [[keyOpening, keyClosing], [valueOpening, valueClosing]] as const; // prettier-ignore
      const isEven = pairs.every(([left, right]) => count(rest, tag(left)) === count(rest, tag(right)));
      if (!isEven || pythonStrip(withoutPairs(rest, null, { suffix })) !== "") {
        return fail(`After the name come only pairs of ${tag(keyOpening)} and ${tag(valueOpening)}.`);
      }
      return readCall({ name, rest, source: body }, { scan, suffix, between: null });
    });
    scan.add(calls);
    return text.slice(0, start.index);
  },
});

const count = (text: string, piece: string): number => text.split(piece).length - 1;

type Call = { readonly name: string; readonly rest: string; readonly source: string };

type Reading = { readonly scan: ToolCallScan; readonly suffix: string; readonly between: string | null };

function readCall({ name, rest, source }: Call, { scan, suffix, between }: Reading) {
  const parameters = new Map<string, PythonValue>();
  for (const [key, value] of argumentPairs(rest, between, { suffix })) {
    parameters.set(key, readAny(value, knownTypes(name, key, scan)));
  }
  const text = dumpJson(parameters);
  scan.reportUnknown(name, source);
  return scan.call(name, text);
}

/** Each call extends to its end, also across the openings of others; the last one need not end. */
function* separatedCalls(text: string, tag: Tag): Generator<Call> {
  const [start, mark, end] = [tag(opening), tag(separator), tag(closing)];
  const callIn = (source: string): Call => {
    const at = source.indexOf(mark);
    const rest = pythonStrip(source.slice(at + mark.length));
    return { name: pythonStrip(source.slice(0, at)), rest, source };
  };
  let rest = 0;
  for (let at = text.indexOf(start); at !== -1;) {
    const markAt = text.indexOf(mark, at + start.length);
    const endAt = markAt === -1 ? -1 : text.indexOf(end, markAt + mark.length);
    if (endAt === -1) break;
    yield callIn(text.slice(at + start.length, endAt));
    rest = endAt + end.length;
    at = text.indexOf(start, rest);
  }
  const last = rest === 0 ? text : text.slice(text.lastIndexOf(end) + end.length);
  const open = last.indexOf(start);
  const source = open === -1 ? "" : last.slice(open + start.length);
  if (source.includes(mark)) yield callIn(source);
}

/** Types that a schema declares, without "null", where a list of types is a union. */
function knownTypes(tool: string, key: string, scan: ToolCallScan): ReadonlySet<string> {
  const declared = declaredParameters(scan.tools.find(({ name }) => name === tool));
  const properties = declared instanceof Map && declared.has("properties") ? declared.get("properties") : emptyObject;
  const schema = properties instanceof Map ? (properties.get(key) ?? emptyObject) : raiseType("AttributeError");
  if (!(schema instanceof Map)) return raiseType("TypeError");
  const type = schema.get("type");
  const options = Array.isArray(type) ? type.map((each) => new Map([["type", each]])) : optionsOf(schema);
  const types = new Set(options.map(normalType));
  types.delete("null");
  return types;
}

const emptyObject: JsonObject = new Map();

const raiseType = (type: string): never => {
  throw new PythonError(type, "a schema of another shape");
};

/** The text as the first of the types that it fits; as any literal if "string" is not among them. */
function readAny(text: string, types: ReadonlySet<string>): PythonValue {
  const value = readValue(text, new Set([...types].concat("string")));
  if (value !== text || types.has("string")) return value;
  for (const read of [parseJson, evaluateLiteral]) {
    const found = unlessRaised(null, () => read(text));
    if (found !== undefined) return found;
  }
  return text;
}
