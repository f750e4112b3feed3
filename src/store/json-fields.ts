// Reads the fields of a JSON object into types, once, at the edge. Every miss names the field and what was found there.

import type { JsonObject, JsonValue } from "../python-semantics/json/value.ts";
import { JsonFloat } from "../python-semantics/json/value.ts";

/** One JSON object and where it stands. All methods throw a plain error when the field is not what is asked for. */
export class JsonFields {
  readonly where: string;
  readonly #fields: JsonObject;

  constructor(value: JsonValue | undefined, where: string) {
    if (!(value instanceof Map)) throw misfit(where, "an object", value);
    this.#fields = value;
    this.where = where;
  }

  text(key: string): string {
    const value = this.#fields.get(key);
    if (typeof value !== "string") throw this.#misfit(key, "a text");
    return value;
  }

  number(key: string): number {
    const value = numberFrom(this.#fields.get(key));
    if (value === undefined) throw this.#misfit(key, "a number");
    return value;
  }

  boolean(key: string): boolean {
    const value = this.#fields.get(key);
    if (typeof value !== "boolean") throw this.#misfit(key, "true or false");
    return value;
  }

  oneOf<T extends string>(key: string, allowed: readonly T[]): T {
    const value = this.#fields.get(key);
    const found = allowed.find((one) => one === value);
    if (found === undefined) throw this.#misfit(key, `one of ${allowed.map((one) => `"${one}"`).join(", ")}`);
    return found;
  }

  /** Any JSON, as it is; absent is `null`. */
  json(key: string): JsonValue {
    return this.#fields.get(key) ?? null;
  }

  jsonObject(key: string): JsonObject {
    const value = this.#fields.get(key);
    if (!(value instanceof Map)) throw this.#misfit(key, "an object");
    return value;
  }

  object(key: string): JsonFields {
    return new JsonFields(this.#fields.get(key), `${this.where}.${key}`);
  }

  list<T>(key: string, read: (item: JsonFields, index: number) => T): T[] {
    return this.#values(key).map((item, index) => read(new JsonFields(item, `${this.where}.${key}[${index}]`), index));
  }

  texts(key: string): readonly string[] {
    const list = this.#values(key);
    if (!list.every((item) => typeof item === "string")) throw this.#misfit(key, "a list of texts");
    return list;
  }

  numbersOrNull(key: string): (number | null)[] {
    const list = this.#values(key).map((item) => (item === null ? null : numberFrom(item)));
    if (!list.every((item) => item !== undefined)) throw this.#misfit(key, "a list of numbers");
    return list;
  }

  /** `null` when the field is null, otherwise what `read` makes of it. */
  nullable<T>(key: string, read: (key: string) => T): T | null {
    return this.json(key) === null ? null : read(key);
  }

  #values(key: string): readonly JsonValue[] {
    const value = this.#fields.get(key);
    if (!Array.isArray(value)) throw this.#misfit(key, "a list");
    return value;
  }

  #misfit(key: string, wanted: string): Error {
    return misfit(`${this.where}.${key}`, wanted, this.#fields.get(key));
  }
}

function numberFrom(value: JsonValue | undefined): number | undefined {
  if (value instanceof JsonFloat) return value.value;
  if (typeof value === "bigint") return Number(value);
  return typeof value === "number" ? value : undefined;
}

function misfit(where: string, wanted: string, value: JsonValue | undefined): Error {
  const found =
    value === undefined ? "nothing" : value === null ? "null" : Array.isArray(value) ? "a list" : typeof value;
  return new Error(`Cannot read ${where}: it is ${found}, ${wanted} is needed.`);
}
