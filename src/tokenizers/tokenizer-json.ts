// What the readers of tokenizer.json share: a place to complain from, and the two ways in which a file can disappoint. A
// file that is wrong is refused by name; a file that is merely not byte-level BPE goes to the library.

import { ConfigurationError } from "../core/index.ts";

/** A tokenizer of another kind than our own code covers. Its message completes "because ...". */
export class NotByteLevelBpe extends Error {}

export type PlainObject = Readonly<Record<string, unknown>>;

/** Parts of one tokenizer.json, with errors that name the file and the field. */
export class TokenizerJson {
  readonly #source: string;

  /** `source` names the file in messages. */
  constructor(source: string) {
    this.#source = source;
  }

  error(problem: string): ConfigurationError {
    return new ConfigurationError(
      `Cannot read tokenizer "${this.#source}": ${problem}; give the tokenizer.json that Hugging Face tokenizers wrote for the model.`,
    );
  }

  object(value: unknown, path: string): PlainObject {
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as PlainObject;
    throw this.error(`${path} is ${nameOf(value)}, an object wanted`);
  }

  array(value: unknown, path: string): readonly unknown[] {
    if (Array.isArray(value)) return value;
    throw this.error(`${path} is ${nameOf(value)}, an array wanted`);
  }

  string(value: unknown, path: string): string {
    if (typeof value === "string") return value;
    throw this.error(`${path} is ${nameOf(value)}, a string wanted`);
  }

  /** Absent and null read as false. */
  flag(value: unknown, path: string): boolean {
    if (typeof value === "boolean") return value;
    if (value === undefined || value === null) return false;
    throw this.error(`${path} is ${nameOf(value)}, true or false wanted`);
  }

  /** The parts of a component that may be one or a "Sequence" of several; null has none. */
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
