// Parts of a parsed tokenizer.json, read with errors that name the file and the field.

import { ConfigurationError } from "../core/index.ts";
import { UnsupportedPattern } from "./split-pattern.ts";

/** A kind of tokenizer, or a part of one, that is not supported. `part` is a field of tokenizer.json. */
export class UnsupportedPart extends Error {
  readonly part: string;

  constructor(part: string, kind: string) {
    super(kind);
    this.part = part;
  }
}

/** Tables are as long as the largest id, so a file with one absurd id must not take the memory of the machine. */
export const largestId = 2 ** 24;

export type PlainObject = Readonly<Record<string, unknown>>;

/** Parts of one tokenizer.json, with errors that name the file and the field. */
export class TokenizerJson {
  readonly #source: string;

  /** `source` names the file in messages. */
  constructor(source: string) {
    this.#source = source;
  }

  readonly error = (problem: string): ConfigurationError =>
    new ConfigurationError(
      `Cannot read tokenizer "${this.#source}": ${problem}; use the tokenizer.json that Hugging Face tokenizers wrote for the model.`,
    );

  /** Returns `value` if `isValid` accepts it; `expected` describes a valid value. */
  #expect<T>(value: unknown, path: string, isValid: (value: unknown) => value is T, expected: string): T {
    if (isValid(value)) return value;
    throw this.error(`${path} is ${nameOf(value)}, ${expected} expected`);
  }

  object(value: unknown, path: string): PlainObject {
    const isObject = (given: unknown): given is PlainObject =>
      typeof given === "object" && given !== null && !Array.isArray(given);
    return this.#expect(value, path, isObject, "an object");
  }

  array(value: unknown, path: string): readonly unknown[] {
    return this.#expect(value, path, (given) => Array.isArray(given), "an array");
  }

  string(value: unknown, path: string): string {
    return this.#expect(value, path, (given) => typeof given === "string", "a string");
  }

  /** One character, which may be two UTF-16 units. */
  character(value: unknown, path: string): string {
    const isCharacter = (given: unknown): given is string =>
      typeof given === "string" && Array.from(given).length === 1;
    return this.#expect(value, path, isCharacter, "one character");
  }

  requiredFlag(value: unknown, path: string): boolean {
    return this.#expect(value, path, (given) => typeof given === "boolean", "true or false");
  }

  /**
   * A regular expression that `translate` reads; a construct that it does not read throws an {@link
   * UnsupportedPart}.
   */
  pattern(value: unknown, path: string, translate: (pattern: string) => RegExp): RegExp {
    try {
      return translate(this.string(value, path));
    } catch (error) {
      if (error instanceof UnsupportedPattern) throw new UnsupportedPart(path.split(".")[0]!, error.message);
      throw error;
    }
  }

  /** Absent and null read as false. */
  flag(value: unknown, path: string): boolean {
    return this.#expect(value ?? false, path, (given) => typeof given === "boolean", "true or false");
  }

  /** The parts of a component, which may be one part or a "Sequence" of several; null has none. */
  sequence(value: unknown, path: string, listKey: string): PlainObject[] {
    if (value === null || value === undefined) return [];
    const component = this.object(value, path);
    if (component["type"] !== "Sequence") return [component];
    const list = this.array(component[listKey], `${path}.${listKey}`);
    return list.flatMap((part, index) => this.sequence(part, `${path}.${listKey}[${index}]`, listKey));
  }
}

/** A value in a few words, for messages. */
export function nameOf(value: unknown): string {
  if (value === undefined) return "missing";
  if (value === null) return "null";
  if (Array.isArray(value)) return "an array";
  if (typeof value === "object") return "an object";
  const text = JSON.stringify(value);
  return text.length > 40 ? `${text.slice(0, 40)}...` : text;
}
