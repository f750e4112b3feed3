// Keys that recognize the echo of an answer. Clients parse the arguments of calls and write them
// back, so arguments are compared as parsed JSON. Python's parser keeps integers exact and distinct
// from floats, JavaScript's turns every number into a double; each formats numbers differently.
// Some clients omit the text of an answer that has calls.

import type { ParsedAction } from "../core/index.ts";
import { JsonFloat, type JsonValue, parseJson } from "../python-semantics/json/index.ts";

/** The part of a message that counts when histories are compared. */
export type MessageKey = { readonly kind: string; readonly text: string };

type Calls = readonly { readonly name: string; readonly argumentsText: string }[];

/** Key of an assistant message as its client has it: numbers keep their written value. */
export function echoKey(content: string, calls: Calls): MessageKey {
  return keyOf(content.trim(), calls, exactly);
}

/** Keys of an answer: first the key of the answer itself, then those of its possible echoes. */
export function answerKeys({
  content,
  toolCalls,
}: Pick<ParsedAction, "content" | "toolCalls">): readonly [MessageKey, ...MessageKey[]] {
  const said = content.trim();
  const exact = keyOf(said, toolCalls, exactly);
  if (toolCalls.length === 0) return [exact];
  const texts = said === "" ? [said] : [said, ""];
  const others = texts.flatMap((text) => [keyOf(text, toolCalls, exactly), keyOf(text, toolCalls, asDouble)]);
  const distinct = new Map(others.filter(({ text }) => text !== exact.text).map((key) => [key.text, key]));
  return [exact, ...distinct.values()];
}

function keyOf(said: string, calls: Calls, numberText: NumberText): MessageKey {
  if (calls.length === 0) return { kind: "assistant", text: said };
  const called = calls.map(
    ({ name, argumentsText }) => `\u0000${name}\u0000${argumentsKey(argumentsText, numberText)}`,
  );
  return { kind: "assistant", text: said + called.join("") };
}

/**
 * Key of the arguments, equal for texts that are parsed alike; text that is not JSON stays
 * unchanged. Missing arguments count as an empty object.
 */
function argumentsKey(text: string, numberText: NumberText): string {
  if (text.trim() === "") return "{}";
  let value: JsonValue;
  try {
    value = parseJson(text);
  } catch {
    return text;
  }
  return valueKey(value, numberText);
}

type NumberText = (value: number | bigint | JsonFloat) => string;

function valueKey(value: JsonValue, numberText: NumberText): string {
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value !== "object" || value instanceof JsonFloat) return numberText(value);
  if (Array.isArray(value)) return `[${value.map((one) => valueKey(one, numberText)).join()}]`;
  const entries = [...value].toSorted(([a], [b]) => (a < b ? -1 : 1));
  return `{${entries.map(([key, one]) => `${JSON.stringify(key)}:${valueKey(one, numberText)}`).join()}}`;
}

/**
 * Writes a number by its exact value, regardless of its type: 1, 1.0 and 1e0 are equal, and
 * integers keep all digits.
 */
function exactly(value: number | bigint | JsonFloat): string {
  return decimal(String(value instanceof JsonFloat ? value.value : value));
}

/**
 * Writes a number as a reader that has only doubles does; numbers beyond their range become `null`.
 */
function asDouble(value: number | bigint | JsonFloat): string {
  const double = value instanceof JsonFloat ? value.value : Number(value);
  return Number.isFinite(double) ? decimal(String(double)) : "null";
}

/** Canonical text of a number: its significant digits and the power of ten. */
function decimal(text: string): string {
  const match = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(text);
  if (match === null) return text;
  const [, sign = "", whole = "", fraction = "", power = "0"] = match;
  const digits = (whole + fraction).replace(/^0+/, "");
  const significant = digits.replace(/(?<!0)0+$/, "");
  if (significant === "") return "0";
  return `${sign}${significant}e${Number(power) - fraction.length + digits.length - significant.length}`;
}
