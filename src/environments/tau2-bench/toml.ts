// TOML without loss: integers and floats stay two types, dates become the text that the reference shows.

import { parse } from "smol-toml";
import { JsonFloat, type JsonValue } from "../../python-semantics/json/index.ts";

/** Throws what the library throws for a text that is no TOML. */
export function parseToml(content: string): JsonValue {
  return asJson(parse(content, { integersAsBigInt: true }));
}

function asJson(value: unknown): JsonValue {
  if (typeof value === "number") return new JsonFloat(value);
  if (typeof value === "bigint") return Number.isSafeInteger(Number(value)) ? Number(value) : value;
  if (typeof value === "string" || typeof value === "boolean") return value;
  if (value instanceof Date) return value.toISOString().replace(/\.000$/, "");
  if (Array.isArray(value)) return value.map(asJson);
  return new Map(Object.entries(value as object).map(([key, item]) => [key, asJson(item)]));
}
