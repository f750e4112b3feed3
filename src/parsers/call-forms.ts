// The form of one call of a tool in each call format, for constraints: the text around the call as
// `spelled-calls.ts` spells it, with the tool's own arguments. Formats with JSON arguments take the
// schema as it is; formats with a tag for each argument get one part for each declared argument, in
// the declared order. Loaded only when a constraint is requested.

import type { TextForm, Tool } from "../core/index.ts";
import { dumpJson, type JsonObject, type JsonValue } from "../python-semantics/json/index.ts";
import { calledName, calledTool, onlyArgument, spelledCall, tagUnit } from "./spelled-calls.ts";
import { toolCallParser } from "./tool-call-parsers.ts";
import { declaredParameters, toolProperties } from "./tool-call-scan.ts";

/** Spelling of the argument `city` with the value `Rome` in a format without JSON. */
type ArgumentSpelling = {
  /** Text of the argument with its value. */
  readonly unit: string;
  /** Text between two arguments. */
  readonly separator: string;
  /** Text on both sides of a value that is a string; a JSON string if it is a double quote. */
  readonly quote: string;
  /** "python": `True` and `None` instead of `true` and `null`. */
  readonly values: "json" | "python";
  /** Pattern of a string value. Default: any text up to the text after the value. */
  readonly text?: string;
};

const tags = { separator: "", quote: "", values: "json" } as const;

/** Spellings of formats whose arguments are not between two tags. */
const argumentSpellings: Readonly<Record<string, ArgumentSpelling>> = {
  gemma4: { unit: 'city:<|"|>Rome<|"|>', separator: ",", quote: '<|"|>', values: "json" },
  functiongemma: { ...tags, unit: "city:<escape>Rome<escape>", separator: "," },
  lfm2: { unit: 'city="Rome"', separator: ", ", quote: '"', values: "python" },
  olmo3: { unit: 'city="Rome"', separator: ", ", quote: '"', values: "python" },
  pythonic: { unit: 'city="Rome"', separator: ", ", quote: '"', values: "python" },
  // Its values end at the first "<".
  step3: { ...tags, unit: '<steptml:parameter name="city">Rome</steptml:parameter>', text: "[^<]*" },
  "minimax-m3": { ...tags, unit: "<city>Rome]<]minimax[>[</city>]<]minimax[>[" },
  kimi_k3: {
    ...tags,
    unit: '<|open|>argument key="city" type="string"<|sep|>Rome<|close|>argument<|sep|>',
  },
};

/**
 * Form of one call of a tool; `null` if the format of `parser` cannot write such a call, or its
 * spelling is not known. `parser`: a name that `toolCallParser` accepts.
 */
export function callForm(parser: string, tool: Tool): TextForm | null {
  const spelled = spelledCall(parser, calledName);
  const own = spelledCall(parser, tool.name);
  if (spelled === null || own === null) return null;
  if (!isCall(parser, own, tool)) return null;
  const named = (text: string): string =>
    text.replaceAll(/"called_tool"|called_tool/g, (part) =>
      part === calledName ? tool.name : JSON.stringify(tool.name),
    );
  if (spelled.includes(onlyArgument)) {
    const [before = "", after = ""] = spelled.split(onlyArgument);
    return sequence([literal(named(before)), { type: "json", schema: parametersSchema(tool) }, literal(named(after))]);
  }
  const spelling = argumentSpelling(spelled);
  if (spelling === null) return null;
  const [before = "", after = ""] = spelled.split(spelling.unit);
  const parts = argumentForms(tool, spelling);
  if (parts === null) return null;
  // A call without arguments, which some formats cannot write.
  const bare = named(before + after);
  if (parts.every(({ type }) => type === "optional") && !isCall(parser, bare, tool)) return null;
  return sequence([literal(named(before)), ...parts, literal(named(after))]);
}

function isCall(parser: string, text: string, { name }: Tool): boolean {
  const { calls } = toolCallParser(parser).parse(text, { tools: [calledTool(name)] });
  return calls.length === 1 && calls[0]!.name === name;
}

/** JSON text of the schema of a tool's arguments; an object of any kind if the tool declares none. */
function parametersSchema(tool: Tool): string {
  const declared = declaredParameters(tool);
  if (!(declared instanceof Map)) return '{"type":"object"}';
  return dumpJson(declared.has("type") ? declared : new Map([["type", "object"], ...declared]));
}

function argumentSpelling(spelled: string): ArgumentSpelling | null {
  const known = Object.keys(argumentSpellings).find((format) => spelledCall(format, calledName) === spelled);
  if (known !== undefined) return argumentSpellings[known]!;
  const [unit = ""] = tagUnit.exec(spelled) ?? [];
  return unit === "" ? null : { ...tags, unit };
}

/** Longest schemas of the arguments of a call together, in characters: each repeats the definitions that it refers to. */
const longestSchemas = 256 * 1024;

/** Maximum number of arguments of which any may come first: the form repeats the others after each. */
const mostFirstArguments = 64;

/**
 * One part for each argument; `null` if the format cannot write the value of one of them, or if they
 * are too many or too long for a form.
 */
function argumentForms(tool: Tool, spelling: ArgumentSpelling): readonly TextForm[] | null {
  const parameters = declaredParameters(tool);
  const listed = parameters instanceof Map ? parameters.get("required") : null;
  const required = new Set<JsonValue>(Array.isArray(listed) ? listed : []);
  const all: { readonly form: TextForm; readonly isRequired: boolean }[] = [];
  let length = 0;
  for (const [name, declared] of toolProperties(tool)) {
    const form = argumentForm(name, resolved(declared, parameters), spelling);
    if (form !== null) all.push({ form, isRequired: required.has(name) });
    else if (required.has(name)) return null;
    length += schemaLength(form);
    if (length > longestSchemas) return null;
  }
  const { separator } = spelling;
  if (separator === "") return all.map(({ form, isRequired }) => (isRequired ? form : { type: "optional", form }));
  if (all.length > mostFirstArguments && !all.some(({ isRequired }) => isRequired)) return null;
  return separated(all, literal(separator));
}

function schemaLength(form: TextForm | null): number {
  if (form?.type === "sequence") return form.parts.reduce((sum, part) => sum + schemaLength(part), 0);
  return form?.type === "json" ? form.schema.length : 0;
}

/**
 * Arguments with a separator between them: the required ones first, so that a separator precedes
 * every optional one; without required ones, any optional one may be the first.
 */
function separated(
  all: readonly { readonly form: TextForm; readonly isRequired: boolean }[],
  separator: TextForm,
): readonly TextForm[] {
  const required = all.filter(({ isRequired }) => isRequired).map(({ form }) => form);
  const optional = all.filter(({ isRequired }) => !isRequired).map(({ form }) => form);
  const rest = (forms: readonly TextForm[]): TextForm[] =>
    forms.map((form) => ({ type: "optional", form: sequence([separator, form]) }));
  if (required.length > 0) {
    return [...required.flatMap((form, at) => (at === 0 ? [form] : [separator, form])), ...rest(optional)];
  }
  if (optional.length === 0) return [];
  const options = optional.map((form, at) => sequence([form, ...rest(optional.slice(at + 1))]));
  return [{ type: "optional", form: options.length === 1 ? options[0]! : { type: "choice", options } }];
}

/** The declaration that a reference names, with the definitions that it may refer to in turn. */
function resolved(declared: JsonValue, parameters: JsonValue | undefined): JsonObject {
  if (!(declared instanceof Map) || !(parameters instanceof Map)) return new Map();
  const schema = definitionOf(declared, parameters);
  const kinds = ["$defs", "definitions"].flatMap((one) => {
    const held = parameters.get(one);
    return held === undefined ? [] : [[one, held] as const];
  });
  return kinds.length > 0 && dumpJson(schema).includes('"$ref"') ? new Map([...schema, ...kinds]) : schema;
}

/** The definition to which a schema refers; the schema itself if it refers to none. */
function definitionOf(schema: JsonObject, root: JsonObject): JsonObject {
  const reference = schema.get("$ref");
  const [, kind = "", name = ""] =
    typeof reference === "string" ? (/^#\/(\$defs|definitions)\/(.+)$/.exec(reference) ?? []) : [];
  const definitions = root.get(kind);
  const found = definitions instanceof Map ? definitions.get(name) : undefined;
  return found instanceof Map ? found : schema;
}

function argumentForm(name: string, schema: JsonObject, spelling: ArgumentSpelling): TextForm | null {
  const { unit, quote, values } = spelling;
  const types = valueTypes(schema);
  const type = mainType(types);
  const quoted = `${quote}Rome${quote}`;
  const [before = "", after = ""] = unit.split(quote === "" ? "Rome" : quoted);
  const rename = (text: string): string => text.replaceAll("city", () => name);
  const [head, tail] = [rename(before), rename(after)];
  if (type !== "string") {
    const typed = head.replace('string="true"', 'string="false"').replace('type="string"', `type="${type}"`);
    const value =
      values === "python" ? pythonValue(types, schema) : quote !== "" && types.some(isContainer) ? null : json(schema);
    return value === null ? null : sequence([literal(typed), value, literal(tail)]);
  }
  const options = stringOptions(schema);
  if (options !== null) {
    const written = options.map((option) => literal(quote === '"' ? JSON.stringify(option) : quote + option + quote));
    return sequence([
      literal(head),
      written.length === 1 ? written[0]! : { type: "choice", options: written },
      literal(tail),
    ]);
  }
  if (values === "python") {
    const value = pythonValue(types, schema);
    return value === null ? null : sequence([literal(head), value, literal(tail)]);
  }
  if (spelling.text !== undefined)
    return sequence([literal(head), { type: "regex", pattern: spelling.text }, literal(tail)]);
  // White space after the closing tag is not part of what ends the value.
  const end = (quote + tail).trimEnd();
  return sequence([literal(head + quote), { type: "text", end }, literal((quote + tail).slice(end.length))]);
}

/** "string" unless the schema excludes one, since values without a declared type are text. */
function mainType(types: readonly string[]): string {
  if (types.length === 0 || types.includes("string")) return "string";
  return types.find((one) => one !== "null") ?? "null";
}

/** Declared types of a value, also those of alternatives and references; empty if none is declared. */
function valueTypes(schema: JsonObject): readonly string[] {
  const types: string[] = [];
  const visited = new Set<JsonValue>([schema]);
  for (const one of visited) {
    if (!(one instanceof Map)) continue;
    for (const name of [one.get("type") ?? []].flat()) if (typeof name === "string") types.push(name);
    for (const keyword of ["anyOf", "oneOf", "allOf"]) {
      const listed = one.get(keyword);
      if (Array.isArray(listed)) for (const alternative of listed) visited.add(alternative);
    }
    visited.add(definitionOf(one, schema));
  }
  return types;
}

function stringOptions(schema: JsonObject): readonly string[] | null {
  const listed = schema.get("enum") ?? (schema.has("const") ? [schema.get("const")!] : null);
  if (!Array.isArray(listed) || listed.length === 0) return null;
  return listed.every((one) => typeof one === "string" && one !== "") ? (listed as string[]) : null;
}

const isContainer = (type: string): boolean => type === "object" || type === "array";

/** `null` for containers, inside of which the words of both languages could not be told apart. */
function pythonValue(types: readonly string[], schema: JsonObject): TextForm | null {
  if (types.some(isContainer)) return null;
  const words = [
    ...(types.includes("boolean") ? ["True", "False"] : []),
    ...(types.includes("null") ? ["None"] : []),
  ].map(literal);
  const hasOthers = types.length === 0 || types.some((one) => !isWord(one));
  const isOpen = types.length === 0 && !schema.has("enum") && !schema.has("const");
  const others = isOpen ? new Map([...schema, ["type", "string"]]) : words.length > 0 ? withoutWords(schema) : schema;
  const options = [...(hasOthers ? [json(others)] : []), ...words];
  return options.length === 1 ? options[0]! : { type: "choice", options };
}

/** Types whose values Python writes as other words than JSON. */
const isWord = (type: JsonValue | undefined): boolean => type === "boolean" || type === "null";

/** The schema without the alternatives, types and values that are such words. */
function withoutWords(schema: JsonObject): JsonObject {
  const others = ([key, value]: readonly [string, JsonValue]): [string, JsonValue] => {
    if (!Array.isArray(value)) return [key, value];
    if (key === "type") return [key, value.filter((one) => !isWord(one))];
    if (key === "enum") return [key, value.filter((one) => one !== null && typeof one !== "boolean")];
    if (key !== "anyOf" && key !== "oneOf") return [key, value];
    const kept = value.filter((one) => !(one instanceof Map && isWord(one.get("type"))));
    return [key, kept.map((one) => (one instanceof Map ? withoutWords(one) : one))];
  };
  return new Map(Array.from(schema, others));
}

const literal = (text: string): TextForm => ({ type: "literal", text });
const json = (schema: JsonObject): TextForm => ({ type: "json", schema: dumpJson(schema) });

/** Joins neighbouring literals and omits empty ones. */
function sequence(forms: readonly TextForm[]): TextForm {
  const parts: TextForm[] = [];
  for (const form of forms.flatMap((one) => (one.type === "sequence" ? one.parts : [one]))) {
    const last = parts.at(-1);
    if (form.type === "literal" && form.text === "") continue;
    if (form.type === "literal" && last?.type === "literal") parts[parts.length - 1] = literal(last.text + form.text);
    else parts.push(form);
  }
  return parts.length === 1 ? parts[0]! : { type: "sequence", parts };
}
