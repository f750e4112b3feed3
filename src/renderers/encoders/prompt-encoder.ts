// Shared parts of encoders: they write segments as a compiled chat template does, refuse with the
// same error, and take the instruction sentences of a vendor from the user's files. The formats
// themselves are in the other files of this folder.

import { finish, type Steps } from "../../lib/steps.ts";
import { PythonError } from "../../python-semantics/index.ts";
import {
  JsonFloat,
  JsonSyntaxError,
  type JsonObject,
  type JsonValue,
  parseJson,
} from "../../python-semantics/json/index.ts";
import { ChatTemplateError, type PromptEncoder, type TemplateInput, type TemplateSegment } from "../chat-template.ts";
import type { RendererFamily } from "../renderer-family.ts";

/** Instruction sentences of a vendor, which are never part of the package. */
export type VendorSentences = {
  /**
   * Sentences by the name of the constant in the vendor's Python module; `NAME.key` for an entry of
   * a dict.
   */
  readonly sentences: ReadonlyMap<string, string>;
  /** Files that are searched for them, from the model folder. */
  readonly files: readonly string[];
};

/**
 * Makes an encoder. `encode` writes one conversation; errors that it throws become a
 * `ChatTemplateError`.
 */
export function createEncoder(options: {
  readonly family: RendererFamily;
  /** Template variables that `encode` reads, in order. */
  readonly variables: readonly string[];
  readonly encode: (input: TemplateInput, writer: PromptWriter) => Steps<void>;
}): PromptEncoder {
  const { family, variables, encode } = options;
  function* inSteps(input: TemplateInput): Steps<readonly TemplateSegment[]> {
    const writer = new PromptWriter();
    try {
      yield* encode(input, writer);
    } catch (error) {
      if (error instanceof Refusal) throw refusalError(family, error.kind, error.message);
      if (error instanceof PythonError) throw refusalError(family, error.pythonType, error.message);
      if (error instanceof JsonSyntaxError) throw refusalError(family, error.pythonType, error.pythonMessage);
      throw error;
    }
    return writer.segments;
  }
  return Object.assign((input: TemplateInput) => finish(inSteps(input)), { inSteps, variables, family });
}

class Refusal extends Error {
  readonly kind: string;

  constructor(kind: string, message: string) {
    super(message);
    this.kind = kind;
  }
}

/** Refuses the conversation. `kind` is that of `ChatTemplateError`. */
export function refuse(kind: string, reason: string): never {
  throw new Refusal(kind, reason);
}

function refusalError({ name }: RendererFamily, kind: string, reason: string): ChatTemplateError {
  return new ChatTemplateError(kind, `Cannot render the conversation for "${name}": ${reason}.`);
}

/** Collects segments. `message` is the place of the message that a text belongs to. */
export class PromptWriter {
  readonly segments: TemplateSegment[] = [];

  /** Text of the format itself. */
  write(text: string, message: number | null): void {
    this.#push({ message, source: "template", text });
  }

  /** Text of a message. */
  quote(text: string, message: number | null): void {
    this.#push({ message, source: "message", text });
  }

  /** Definitions of tools. */
  writeTools(text: string, message: number | null): void {
    this.#push({ message, source: "tools", text });
  }

  #push(segment: TemplateSegment): void {
    if (segment.text !== "") this.segments.push(segment);
  }
}

/** The sentence of a constant. Refuses where no file of the user holds it. */
export function sentence({ sentences: texts, files }: VendorSentences, name: string): string {
  const text = texts.get(name);
  if (text !== undefined) return text;
  return refuse(
    "missing-sentence",
    `the vendor's sentence ${name} is in none of the model folder's files; put the file of the model's publisher there as ${files.join(" or ")}`,
  );
}

/**
 * A sentence with its `{fields}` filled in, as Python's `str.format` does: in pieces, so that a
 * caller can tell its own text from the values. Refuses a field that is not given.
 */
export function formatSentence(
  text: string,
  fields: ReadonlyMap<string, string>,
): readonly { readonly field: string | null; readonly text: string }[] {
  const pieces: { field: string | null; text: string }[] = [];
  let end = 0;
  for (const match of text.matchAll(/\{\{|\}\}|\{(\w*)\}/g)) {
    pieces.push({ field: null, text: text.slice(end, match.index) });
    end = match.index + match[0].length;
    const [whole, field] = match;
    if (field === undefined) pieces.push({ field: null, text: whole.slice(1) });
    else {
      const filled = fields.get(field) ?? refuse("KeyError", `the vendor's sentence has an unknown field "${field}"`);
      pieces.push({ field, text: filled });
    }
  }
  return [...pieces, { field: null, text: text.slice(end) }];
}

/**
 * A message as an encoder reads it, and its place among the given ones; `null` for one that the
 * encoder added.
 */
export type PlacedMessage = { readonly place: number | null; readonly role: string; readonly wire: JsonObject };

/** Messages with their places. Refuses anything but objects with a role. */
export function placedMessages(messages: readonly JsonValue[]): PlacedMessage[] {
  return messages.map((wire, place) => {
    const role = wire instanceof Map ? wire.get("role") : undefined;
    if (!(wire instanceof Map) || typeof role !== "string") return refuse("TypeError", `message ${place} has no role`);
    return { place, role, wire };
  });
}

/**
 * A text of a message; "" if it is null or absent. Refuses anything else: these models read only
 * text.
 */
export function textOf(wire: JsonObject, key: string): string {
  const value = wire.get(key) ?? null;
  if (value === null) return "";
  return typeof value === "string" ? value : refuse("TypeError", `the ${key} of a message is not text`);
}

export type WrittenCall = { readonly id: string; readonly name: string; readonly arguments: JsonValue };

/** The calls of an assistant message. Refuses values that are not shaped as calls. */
export function callsOf(wire: JsonObject): readonly WrittenCall[] {
  const calls = wire.get("tool_calls") ?? [];
  if (!Array.isArray(calls)) return refuse("TypeError", "the tool_calls of a message are not a list");
  return calls.map((call: JsonValue) => {
    const body = call instanceof Map ? call.get("function") : undefined;
    const name = body instanceof Map ? body.get("name") : undefined;
    if (!(call instanceof Map) || !(body instanceof Map) || typeof name !== "string") {
      return refuse("TypeError", "a tool call has no name");
    }
    const id = call.get("id");
    return { id: typeof id === "string" ? id : "", name, arguments: body.get("arguments") ?? null };
  });
}

/** The functions of tools; empty if there are none. Refuses values that are not shaped as tools. */
export function functionsOf(tools: JsonValue): readonly JsonValue[] {
  if (tools === null) return [];
  if (!Array.isArray(tools)) return refuse("TypeError", "the tools are not a list");
  return tools.map((tool: JsonValue) => {
    const body = tool instanceof Map ? tool.get("function") : undefined;
    return body === undefined ? refuse("KeyError", "a tool has no function") : body;
  });
}

/** Arguments as an object: JSON text is read. Refuses anything else. */
export function argumentsObject(value: JsonValue): JsonObject {
  const read = typeof value === "string" ? parseJson(value) : value;
  return read instanceof Map ? read : refuse("ValueError", "the arguments of a tool call are not a JSON object");
}

/** True if the variable is truthy in Python. */
export function isTruthy(value: JsonValue | undefined): boolean {
  if (value === undefined || value === null || value === false || value === "" || value === 0) return false;
  if (Array.isArray(value)) return value.length > 0;
  if (value instanceof JsonFloat) return value.value !== 0;
  return value instanceof Map ? value.size > 0 : true;
}

/** A switch that is on by default. */
export function isUnlessGiven(kwargs: JsonObject, name: string): boolean {
  return !kwargs.has(name) || isTruthy(kwargs.get(name));
}
