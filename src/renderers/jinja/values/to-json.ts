// Values back to JSON, as Python's `json.dumps` takes them: tuples are lists, keys become text, everything else is refused.

import { JsonFloat, type JsonObject, type JsonValue } from "../../../python-semantics/json/index.ts";
import { compareCodePoints, floatRepr } from "../../../python-semantics/index.ts";
import { PythonDict, PythonList, PythonTuple } from "./containers.ts";
import { typeError } from "./raise.ts";
import { TracedText } from "./traced-text.ts";
import { typeNameOf } from "./type-name.ts";
import type { Value } from "./value.ts";

/** Throws a "TypeError" for what JSON does not have. */
export function toJsonValue(value: Value, sortKeys: boolean): JsonValue {
  if (value === null || typeof value !== "object" || value instanceof JsonFloat) return value;
  if (value instanceof TracedText) return value.text;
  if (value instanceof PythonList || value instanceof PythonTuple) {
    if (value instanceof PythonList && value.json !== null && !sortKeys) return value.json;
    return value.items.map((item) => toJsonValue(item, sortKeys));
  }
  if (value instanceof PythonDict) return dictToJson(value, sortKeys);
  throw typeError(`a value of type ${typeNameOf(value)} was to be written as JSON`);
}

function dictToJson(dict: PythonDict, sortKeys: boolean): JsonObject {
  if (dict.json !== null && !sortKeys) return dict.json;
  const entries = Array.from(dict.entries.values());
  if (sortKeys) {
    if (!entries.every(({ key }) => key instanceof TracedText)) throw typeError("the keys of a dict cannot be sorted");
    entries.sort((left, right) => compareCodePoints(keyText(left.key), keyText(right.key)));
  }
  return new Map(entries.map(({ key, value }) => [keyText(key), toJsonValue(value, sortKeys)]));
}

function keyText(key: Value): string {
  if (key instanceof TracedText) return key.text;
  if (key === null) return "null";
  if (typeof key === "boolean") return key ? "true" : "false";
  if (key instanceof JsonFloat) return floatRepr(key.value);
  if (typeof key !== "object") return String(key);
  throw typeError(`a ${typeNameOf(key)} cannot be a key of JSON`);
}
