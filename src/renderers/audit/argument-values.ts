// Checks that the arguments of calls come back: each kind of value is written by the chat template,
// as in the history that a model learned from, and read by the parser. Formats without JSON write a
// string and a number alike, and their parsers guess by the schema; where a server guesses wrong,
// so do we, and the kind is named here.

import { type AssistantMessage, type Tool, toolFromDefinition } from "../../core/index.ts";
import { unlessRaised } from "../../python-semantics/index.ts";
import {
  dumpJson,
  fromPlain,
  type JsonObject,
  type JsonValue,
  parseJson,
  toPlain,
} from "../../python-semantics/json/index.ts";
import { AuditedTemplate, type AuditTemplateOptions } from "./audited-template.ts";
import { type AnswerFrame, answerFrame, auditContents, writtenAnswer } from "./sampled-answers.ts";
import type { ValuesFound } from "./template-audit.ts";

type ValueKind = {
  readonly kind: string;
  /** JSON Schema of the parameter. */
  readonly schema: JsonValue;
  readonly value: JsonValue;
};

const kind = (name: string, schema: object, json: string): ValueKind => ({
  kind: name,
  schema: fromPlain(schema),
  value: parseJson(json),
});
const text = (name: string, value: string): ValueKind => ({
  kind: name,
  schema: fromPlain({ type: "string" }),
  value,
});

const [integer, number, boolean] = [{ type: "integer" }, { type: "number" }, { type: "boolean" }];
const nullable = { type: ["string", "null"] };
const either = { anyOf: [{ type: "integer" }, { type: "null" }] };

/** Every kind of argument that is tried. */
export const valueKinds: readonly ValueKind[] = [
  text("a string", "Rome"),
  text("an empty string", ""),
  text("a blank string", "  "),
  text("a string with spaces around it", "  Rome  "),
  text("a string that begins with a line break", "\nRome"),
  text("a string that ends with a line break", "Rome\n"),
  text("a string of several lines", "one\n\n\ttwo"),
  text("a string with quotes", "a \"b\" 'c'"),
  text("a string in quotes", '"Rome"'),
  text("a string with backslashes", String.raw`C:\new\table`),
  text('the string "null"', "null"),
  text('the string "None"', "None"),
  text('the string "true"', "true"),
  text("a string of digits", "42"),
  text("a string that is a decimal number", "1.50"),
  text("a string that is a JSON object", '{"a": 1}'),
  text("a string that is a JSON list", "[1, 2]"),
  text("a string in other scripts", "Zürich 東京 😀"),
  text("a string with HTML", "<b>one</b> & <i>two</i>"),
  text("a string with HTML entities", "1 &lt; 2 &amp; 3"),
  text("a string of source code", "def f(x):\n    return {x}  # '%s'"),
  kind("zero", integer, "0"),
  kind("an integer", integer, "42"),
  kind("a negative integer", integer, "-7"),
  kind("an integer above 2^53", integer, "12345678901234567891"),
  kind("a decimal number", number, "1.5"),
  kind("a decimal number that is whole", number, "2.0"),
  kind("a negative decimal number", number, "-0.25"),
  kind("a number with an exponent", number, "1e-07"),
  kind("true", boolean, "true"),
  kind("false", boolean, "false"),
  kind("an empty list", { type: "array" }, "[]"),
  kind("a list of strings", { type: "array", items: { type: "string" } }, '["a", "b c"]'),
  kind("a list of integers", { type: "array", items: integer }, "[1, 2]"),
  kind("a list of lists", { type: "array", items: { type: "array" } }, "[[1], [2, 3]]"),
  kind("a list of objects", { type: "array", items: { type: "object" } }, '[{"a": 1}, {"b": null}]'),
  kind("a list with quotes and booleans", { type: "array" }, '["it\'s", true, null]'),
  kind("an empty object", { type: "object" }, "{}"),
  kind("an object", { type: "object" }, '{"a": "b", "c": 1.5}'),
  kind("an object in an object", { type: "object" }, '{"a": {"b": [true, null]}}'),
  kind("an object with quotes", { type: "object" }, '{"a\'b": "say \\"x\\"\\n"}'),
  kind("null where a string may stand", nullable, "null"),
  kind("a string where null may stand", nullable, '"Rome"'),
  kind("null where an integer may stand", either, "null"),
  kind("an integer where null may stand", either, "42"),
  kind("a value of any type", {}, '{"a": [1]}'),
];

const toolName = "save_values";
const nameOf = (value: ValueKind): string => `value_${valueKinds.indexOf(value)}`;

/** A tool with one parameter for each kind. */
function valueTool(kinds: readonly ValueKind[]): Tool {
  const properties = Object.fromEntries(kinds.map((one) => [nameOf(one), toPlain(one.schema)]));
  const parameters = { type: "object", properties };
  const definition = { type: "function", function: { name: toolName, description: "Saves values.", parameters } };
  return toolFromDefinition(fromPlain(definition) as JsonObject);
}

type Opened = { readonly audited: AuditedTemplate; readonly frame: AnswerFrame };

/** `null` if the template raises. */
function open(options: AuditTemplateOptions, kinds: readonly ValueKind[]): Opened | null {
  const audited = new AuditedTemplate(options, [valueTool(kinds)]);
  const question = { role: "user", content: auditContents.question } as const;
  if (audited.render([question], { addGenerationPrompt: true }).type === "refused") return null;
  return { audited, frame: answerFrame(audited, [question]) };
}

/** Ids of calls in the forms that templates accept. */
const callIds = ["call00000", `functions.${toolName}:0`];

/**
 * Finds the kinds of values that do not come back; `null` if the template writes no call after its
 * own prompt, or its parser does not read a call with a plain string. Throws as `AuditedTemplate`
 * does.
 */
export function findLostValues(options: AuditTemplateOptions): ValuesFound | null {
  let kinds = valueKinds;
  let opened = open(options, kinds);
  if (opened === null) {
    kinds = valueKinds.filter((one) => open(options, [one]) !== null);
    opened = open(options, kinds);
  }
  if (opened === null) return null;
  const refused = namesOf(valueKinds.filter((one) => !kinds.includes(one)));
  const [plain] = kinds;
  for (const id of callIds) {
    // If even a plain string does not come back, the calls are not in this parser's format.
    if (plain === undefined || readBack(opened, plain, id) !== "same") continue;
    const outcomes = kinds.map((one) => readBack(opened, one, id));
    const lost = namesOf(kinds.filter((_, index) => outcomes[index] === "lost"));
    return { written: outcomes.filter((outcome) => outcome !== "unwritten").length, lost, refused };
  }
  return null;
}

const namesOf = (kinds: readonly ValueKind[]): readonly string[] => kinds.map((one) => one.kind);

function readBack({ audited, frame }: Opened, one: ValueKind, id: string): "same" | "lost" | "unwritten" {
  const argumentsText = dumpJson(new Map([[nameOf(one), one.value]]));
  const message: AssistantMessage = {
    role: "assistant",
    content: "",
    reasoning: null,
    toolCalls: [{ id, name: toolName, argumentsText }],
  };
  const answer = writtenAnswer(audited, { frame, message, mustHold: nameOf(one) });
  if (answer === null) return "unwritten";
  const { toolCalls } = audited.read(answer, 0);
  const isCall = toolCalls.length === 1 && toolCalls[0]!.name === toolName;
  const read = isCall ? unlessRaised(null, () => parseJson(toolCalls[0]!.argumentsText)) : undefined;
  if (!(read instanceof Map) || read.size !== 1) return "lost";
  const value = read.get(nameOf(one));
  return value !== undefined && inOrder(value) === inOrder(one.value) ? "same" : "lost";
}

/** Objects are equal in any order of their keys. */
const inOrder = (value: JsonValue): string => dumpJson(value, { sortKeys: true });
