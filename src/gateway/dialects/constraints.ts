// Constraints that clients request, in every form in which the dialects state them: a format of the
// answer (`response_format`, `text.format`, `output_config.format`, and the parameters of vLLM and
// SGLang), and a forced choice of a tool. `session-constraint.ts` turns them into a constraint of
// the engine.

import { z } from "zod";
import { anyNames } from "../../lib/any-names.ts";
import { dumpJson, fromPlain } from "../../python-semantics/json/index.ts";
import { type AnswerForm, type ClientConstraint, type DialectName, GatewayError } from "../request.ts";
import { optional, type ToolChoice } from "./fields.ts";
import { jsonSchemaOf } from "./google-schema.ts";
import { readBody, unsupported } from "./request-fields.ts";

/** The constraint of a request; `null` if it states none. Throws a `GatewayError` for one that cannot be read. */
export function constraintIn(dialect: DialectName, body: unknown, choice: ToolChoice | null): ClientConstraint | null {
  const forms = givenForms(dialect, body);
  if (forms.length > 1) {
    const names = forms.map(({ field }) => field).join(" and ");
    throw invalid(`${names} both constrain the answer; send one of them`, forms[1]!.field);
  }
  const [form] = forms;
  const mustCall = choice?.mustCall ?? null;
  if (form === undefined && mustCall === null) return null;
  return {
    fields: [
      ...(choice === null || mustCall === null ? [] : [choice.field]),
      ...(form === undefined ? [] : [form.field]),
    ],
    mustCall,
    answer: form?.answer ?? null,
  };
}

type GivenForm = { readonly field: string; readonly answer: AnswerForm };

/** Reads the value of a field; `null` if it constrains nothing. `beside`: all fields of the object that holds it. */
type FormReader = (value: unknown, field: string, beside: Readonly<Record<string, unknown>>) => AnswerForm | null;

const anyObject = '{"type":"object"}';
/** Longest schema, pattern or grammar, in characters; servers compile it for each new one. */
const longestForm = 256 * 1024;

/** Fields of vLLM and SGLang that constrain the whole text of an answer. */
const serverForms: Readonly<Record<string, FormReader>> = {
  guided_json: (value, field) => whole(schemaForm(value, field)),
  guided_regex: (value, field) => whole({ type: "regex", pattern: text(value, field) }),
  guided_choice: (value, field) => whole({ type: "regex", pattern: choicePattern(value, field) }),
  guided_grammar: (value, field) => whole({ type: "ebnf", grammar: text(value, field) }),
  structured_outputs: structuredOutputs,
  json_schema: (value, field) => whole(schemaForm(value, field)),
  regex: (value, field) => whole({ type: "regex", pattern: text(value, field) }),
  ebnf: (value, field) => whole({ type: "ebnf", grammar: text(value, field) }),
};

/** The forms under the names of their nested fields. */
function inside(name: string, fields: readonly string[]): Readonly<Record<string, FormReader>> {
  return Object.fromEntries(fields.map((field) => [`${name}.${field}`, serverForms[field]!]));
}

const readers: Readonly<Record<DialectName, Readonly<Record<string, FormReader>>>> = {
  chat: { response_format: nestedFormat, ...serverForms },
  completions: { response_format: nestedFormat, ...serverForms },
  responses: { "text.format": flatFormat },
  messages: { "output_config.format": flatFormat, output_format: flatFormat },
  google: {
    "generationConfig.responseMimeType": mimeForm,
    "generationConfig.responseSchema": (value, field, beside) => schemaOfMime(jsonSchemaOf(value), field, beside),
    "generationConfig.responseJsonSchema": schemaOfMime,
  },
  sglang: {
    ...inside("sampling_params", ["json_schema", "regex", "ebnf"]),
    "sampling_params.choice": serverForms["guided_choice"]!,
  },
  vllm: inside("sampling_params", ["structured_outputs"]),
};

function givenForms(dialect: DialectName, body: unknown): readonly GivenForm[] {
  return Object.entries(readers[dialect]).flatMap(([field, read]) => {
    let [value, beside]: [unknown, Readonly<Record<string, unknown>>] = [body, {}];
    for (const name of field.split(".")) {
      beside = isFields(value) ? value : {};
      value = beside[name];
    }
    const answer = value === undefined || value === null ? null : read(value, field, beside);
    return answer === null ? [] : [{ field, answer }];
  });
}

const nestedSchema = z.object({
  type: z.string(),
  json_schema: optional(z.object({ schema: z.unknown().optional() })),
});

/** Format of Chat: the schema is inside `json_schema`. */
function nestedFormat(value: unknown, field: string): AnswerForm | null {
  const { type, json_schema: inner } = readBody(nestedSchema, value, field.split("."));
  return formatOf(type, inner?.schema, field);
}

/** Format of Responses and Messages: the schema is beside the type. */
function flatFormat(value: unknown, field: string): AnswerForm | null {
  const { type, schema } = readBody(
    z.object({ type: z.string(), schema: z.unknown().optional() }),
    value,
    field.split("."),
  );
  return formatOf(type, schema, field);
}

function formatOf(type: string, schema: unknown, field: string): AnswerForm | null {
  if (type === "text") return null;
  if (type === "json_object") return { type: "json-schema", schema: anyObject, mayCallInstead: true };
  if (type === "json_schema") return { ...schemaForm(schema, field), mayCallInstead: true };
  throw unsupported(`${field} of type "${type}" is refused; send text, json_object or json_schema`, field);
}

const anyJson = '{"anyOf":[{"type":"object"},{"type":"array"}]}';

/** Google's type of an answer; the schema beside it takes precedence. */
function mimeForm(value: unknown, field: string, beside: Readonly<Record<string, unknown>>): AnswerForm | null {
  const hasSchema = [beside["responseSchema"], beside["responseJsonSchema"]].some((one) => (one ?? null) !== null);
  if (value === "text/plain") return null;
  if (value === "application/json")
    return hasSchema ? null : { type: "json-schema", schema: anyJson, mayCallInstead: true };
  if (value === "text/x.enum" && hasSchema) return null;
  const said = typeof value === "string" ? `"${value.slice(0, 60)}"` : "no text";
  throw unsupported(
    `${field} ${said} is refused; send text/plain, application/json, or text/x.enum with a schema`,
    field,
  );
}

/** The schema of Google's answer, as JSON or as one of the texts of its enumeration. */
function schemaOfMime(schema: unknown, field: string, beside: Readonly<Record<string, unknown>>): AnswerForm {
  const type = beside["responseMimeType"] ?? "application/json";
  if (type === "application/json") return { ...schemaForm(schema, field), mayCallInstead: true };
  if (type === "text/plain") throw invalid(`${field} needs responseMimeType application/json`, field);
  const options = isFields(schema) ? schema["enum"] : undefined;
  return { type: "regex", pattern: choicePattern(options, field), mayCallInstead: true };
}

const structuredSchema = z.object({
  json: z.unknown().optional(),
  json_object: optional(z.boolean()),
  regex: z.unknown().optional(),
  choice: z.unknown().optional(),
  grammar: z.unknown().optional(),
  structural_tag: z.unknown().optional(),
});

function structuredOutputs(value: unknown, field: string): AnswerForm | null {
  const given = readBody(structuredSchema, value, [field]);
  const has = (one: unknown): boolean => one !== undefined && one !== null && one !== false;
  const forms: AnswerForm[] = [];
  if (has(given.structural_tag)) {
    throw unsupported(`${field}.structural_tag is refused; send tool_choice, or response_format`, field);
  }
  if (has(given.json)) forms.push(whole(schemaForm(given.json, field)));
  if (has(given.json_object)) forms.push(whole({ type: "json-schema", schema: anyObject }));
  if (has(given.regex)) forms.push(whole({ type: "regex", pattern: text(given.regex, field) }));
  if (has(given.choice)) forms.push(whole({ type: "regex", pattern: choicePattern(given.choice, field) }));
  if (has(given.grammar)) forms.push(whole({ type: "ebnf", grammar: text(given.grammar, field) }));
  if (forms.length > 1) throw invalid(`${field} states several constraints; send one`, field);
  return forms[0] ?? null;
}

type WholeForm<T = AnswerForm> = T extends unknown ? Omit<T, "mayCallInstead"> : never;

function whole(form: WholeForm): AnswerForm {
  return { ...form, mayCallInstead: false };
}

/** A schema as an object, or as the text of one. */
function schemaForm(value: unknown, field: string): Extract<WholeForm, { readonly type: "json-schema" }> {
  try {
    const schema: unknown = typeof value === "string" ? JSON.parse(bounded(value, field)) : value;
    const read = anyNames(z.unknown()).safeParse(schema);
    if (!read.success) throw invalid(`${field} has no JSON schema, which is an object`, field);
    const form = bounded(dumpJson(fromPlain(read.data)), field);
    // A number beyond the largest float has no JSON text.
    JSON.parse(form);
    return { type: "json-schema", schema: form };
  } catch (error) {
    if (error instanceof SyntaxError) throw invalid(`${field} is not the JSON text of a schema`, field);
    // Only text can be nested so deeply: the depth of bodies is bounded.
    if (error instanceof TypeError || error instanceof RangeError)
      throw invalid(`${field} is nested too deeply`, field);
    throw error;
  }
}

function text(value: unknown, field: string): string {
  if (typeof value !== "string" || value === "") throw invalid(`${field} is not a text`, field);
  return bounded(value, field);
}

/** A pattern that exactly these texts match. */
function choicePattern(value: unknown, field: string): string {
  const read = z.array(z.string().min(1)).min(1).safeParse(value);
  if (!read.success) throw invalid(`${field} is not a list of texts`, field);
  const escaped = read.data.map((one) => one.replaceAll(/[\\^$.*+?()[\]{}|/-]/g, String.raw`\$&`));
  return bounded(`(${escaped.join("|")})`, field);
}

function bounded(form: string, field: string): string {
  if (form.length <= longestForm) return form;
  throw invalid(`${field} has ${form.length} characters; at most ${longestForm} are taken`, field);
}

function invalid(what: string, param: string): GatewayError {
  return new GatewayError("invalid-request", `Cannot read the request: ${what}.`, { param });
}

function isFields(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
