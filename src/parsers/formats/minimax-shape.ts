// What a JSON Schema says to somebody who reads nested tags: which types a value may have, and what stands inside it. A schema
// that is no object says nothing.

import type { JsonObject, JsonValue } from "../../python-semantics/json/index.ts";
import { pythonLower } from "../../python-semantics/index.ts";
import { kindNames } from "../typed-text.ts";

const scalarNames: readonly string[] = ["null", ...Object.values(kindNames).flat()];
const silent: JsonObject = new Map();

export class MinimaxShape {
  readonly #schema: JsonObject;
  readonly #types: readonly string[];

  constructor(schema: JsonValue | undefined) {
    this.#schema = schema instanceof Map ? schema : silent;
    this.#types = [this.#schema.get("type")].flat().filter((type) => typeof type === "string").map(pythonLower); // prettier-ignore
  }

  allows(types: readonly string[]): boolean {
    return this.#types.some((type) => types.includes(type));
  }

  get isList(): boolean {
    return this.allows(["array"]);
  }

  get isScalar(): boolean {
    return this.allows(scalarNames) && !this.allows(["object", "array"]);
  }

  /** The shape of a tag inside; `place` counts the items of a list that stand before it. */
  inside(tag: string, place: number): MinimaxShape {
    if (this.isList && tag === "item") return new MinimaxShape(this.#itemSchema(place));
    const properties = this.#schema.get("properties");
    const isDeclared = properties instanceof Map && properties.has(tag);
    return new MinimaxShape(isDeclared ? properties.get(tag) : this.#schema.get("additionalProperties"));
  }

  /** Items with a schema of their own, then what is said of all others, then the last one of their own again. */
  #itemSchema(place: number): JsonValue | undefined {
    const prefix = this.#schema.get("prefixItems");
    const own = Array.isArray(prefix) ? prefix : [];
    if (place < own.length) return own[place];
    const others = ["additionalItems", "items"].map((key) => this.#schema.get(key));
    return others.find((schema) => schema instanceof Map) ?? own.at(-1);
  }
}
