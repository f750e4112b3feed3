// The rules of one domain: a list of texts. Upstream's agents are not shown them; they belong to the layout.

import type { JsonValue } from "../../../python-semantics/json/index.ts";
import type { PythonSource } from "./python/python-source.ts";
import { readItems, readText } from "./python/read-literal.ts";
import { findBinding, readScope } from "./python/read-scope.ts";

/** Throws a `ConfigurationError` that names file and line when the source says anything else than a list of texts. */
export function readRules(source: PythonSource): JsonValue[] {
  const { value } = findBinding(source, readScope(source, source.top), "RULES", "assignment");
  return readItems(source, value).map((item) => readText(source, item));
}
