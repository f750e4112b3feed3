// Reads fields of a body that may be anything. A wrong type is HTTP 400 with the name of the field; null counts as absent.

import { VllmRefusal, type Parameter } from "./vllm-refusal.ts";

/** Throws a `VllmRefusal` with HTTP 400 when the condition does not hold. */
export function require(holds: boolean, message: string, parameter: Parameter | null = null): void {
  if (!holds) throw new VllmRefusal(400, message, parameter);
}

export class FieldReader {
  readonly #fields: Readonly<Record<string, unknown>>;

  constructor(value: unknown, name: string) {
    require(typeof value === "object" &&
      value !== null &&
      !Array.isArray(value), `${name}: Input should be a valid dictionary`);
    this.#fields = value as Readonly<Record<string, unknown>>;
  }

  names(): readonly string[] {
    return Object.keys(this.#fields);
  }

  has(name: string): boolean {
    return Object.hasOwn(this.#fields, name);
  }

  /** True for what asks for nothing: absent, null, or without an entry. */
  isEmpty(name: string): boolean {
    const value = this.#value(name);
    return value === null || value === "" || (typeof value === "object" && Object.keys(value).length === 0);
  }

  /** Empty when absent. */
  object(name: string): FieldReader {
    return new FieldReader(this.#value(name) ?? {}, name);
  }

  list(name: string): readonly unknown[] {
    const value = this.#value(name);
    require(Array.isArray(value), `${name}: Input should be a valid list`);
    return value as readonly unknown[];
  }

  integers(name: string): readonly number[] {
    if (this.#value(name) === null) return [];
    const list = this.list(name);
    require(list.every((entry) => Number.isInteger(entry)), `${name}: Input should be a valid integer`);
    return list as readonly number[];
  }

  number(name: string): number | null {
    const value = this.#value(name);
    require(value === null || typeof value === "number", `${name}: Input should be a valid number`);
    return value as number | null;
  }

  integer(name: string): number | null {
    const value = this.number(name);
    require(value === null || Number.isInteger(value), `${name}: Input should be a valid integer`);
    return value;
  }

  text(name: string): string | null {
    const value = this.#value(name);
    require(value === null || typeof value === "string", `${name}: Input should be a valid string`);
    return value as string | null;
  }

  /** Absent is false. */
  boolean(name: string): boolean {
    const value = this.#value(name);
    require(value === null || typeof value === "boolean", `${name}: Input should be a valid boolean`);
    return value === true;
  }

  #value(name: string): unknown {
    return (this.has(name) ? this.#fields[name] : null) ?? null;
  }
}
