// Jinja's and Python's view of JSON values, as far as chat templates use it: attributes that may be undefined, truth,
// addition of texts, and which mistake raises what. JavaScript's `undefined` is Jinja's undefined value.

import { dumpJson, JsonFloat, type JsonValue } from "../python-semantics/json/index.ts";
import { isOrEquals, pythonStr, pythonStrip, pythonTypeName } from "../python-semantics/index.ts";
import { ChatTemplateError } from "./chat-template.ts";

export type TemplateValue = JsonValue | undefined;

/** `value.name`: undefined where there is none; an undefined value has no attributes at all. */
export function attribute(value: TemplateValue, name: string): TemplateValue {
  if (value === undefined) throw undefinedError(`the attribute "${name}" of an undefined value was asked for`);
  return value instanceof Map ? value.get(name) : undefined;
}

/** Jinja's test of a condition. */
export function isTruthy(value: TemplateValue): boolean {
  if (value instanceof JsonFloat) return value.value !== 0;
  if (Array.isArray(value)) return value.length > 0;
  if (value instanceof Map) return value.size > 0;
  return Boolean(value);
}

/** What a `for` loop visits. */
export function iterate(value: TemplateValue): readonly JsonValue[] {
  if (value === undefined) return [];
  if (Array.isArray(value)) return value;
  if (value instanceof Map) return [...value.keys()];
  if (typeof value === "string") return Array.from(value);
  throw typeError(`a ${pythonTypeName(value)} cannot be looped over`);
}

/** What `{{ value }}` writes. */
export function printed(value: TemplateValue): string {
  return value === undefined ? "" : pythonStr(value);
}

/** The operand of a `+` whose other side is a text. */
export function textOperand(value: TemplateValue): string {
  if (typeof value === "string") return value;
  if (value === undefined) throw undefinedError("an undefined value was added to a text");
  throw typeError(`a ${pythonTypeName(value)} was added to a text`);
}

/** The text on which a text method is called; anything else has no such method, and calling an undefined value raises. */
export function methodReceiver(value: TemplateValue, method: string): string {
  if (typeof value === "string") return value;
  throw undefinedError(`"${method}" was called on a value that is not a text`);
}

/** `text in container`. */
export function contains(container: TemplateValue, text: string): boolean {
  if (typeof container === "string") return container.includes(text);
  if (container === undefined) return false;
  if (Array.isArray(container)) return container.some((item) => isOrEquals(item, text));
  if (container instanceof Map) return container.has(text);
  throw typeError(`a ${pythonTypeName(container)} cannot be searched`);
}

/** The filter `tojson`, as Hugging Face configures it: Python's layout, nothing escaped beyond JSON. */
export function toJson(value: TemplateValue): string {
  if (value === undefined) throw typeError("an undefined value was to be written as JSON");
  return dumpJson(value);
}

/** The filter `trim`. */
export function trimmed(value: TemplateValue): string {
  return pythonStrip(printed(value));
}

/** The filter `length`, as far as it is asked whether there is anything. */
export function lengthOf(value: TemplateValue): number {
  if (value === undefined) return 0;
  if (typeof value === "string") return Array.from(value).length;
  if (Array.isArray(value)) return value.length;
  if (value instanceof Map) return value.size;
  throw typeError(`a ${pythonTypeName(value)} has no length`);
}

/** The test `iterable`; an undefined value passes it, as an empty list does. */
export function isIterable(value: TemplateValue): boolean {
  return (
    value === undefined ||
    typeof value === "string" ||
    (typeof value === "object" && (Array.isArray(value) || value instanceof Map))
  );
}

/** A mapping or a list: what templates write as JSON rather than as text. */
export function isStructured(value: TemplateValue): boolean {
  return value instanceof Map || Array.isArray(value);
}

/** The filter `items`. */
export function itemsOf(value: TemplateValue): readonly (readonly [string, JsonValue])[] {
  if (value === undefined) return [];
  if (value instanceof Map) return [...value];
  throw typeError(`a ${pythonTypeName(value)} has no items`);
}

/** The method `items`: what is no mapping has none, and calling it raises. */
export function itemsMethod(value: TemplateValue): readonly (readonly [string, JsonValue])[] {
  if (value instanceof Map) return [...value];
  throw undefinedError('"items" was called on a value that is not a mapping');
}

/** The template refuses its input in its own words. */
export function raised(message: string): ChatTemplateError {
  return new ChatTemplateError("raise", message);
}

function undefinedError(what: string): ChatTemplateError {
  return new ChatTemplateError("undefined", `Cannot render the conversation with this chat template: ${what}.`);
}

function typeError(what: string): ChatTemplateError {
  return new ChatTemplateError("TypeError", `Cannot render the conversation with this chat template: ${what}.`);
}
