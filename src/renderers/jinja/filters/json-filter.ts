// The filter `tojson` as transformers replaces it: `json.dumps` with nothing escaped for HTML.

import { dumpJson, type DumpJsonOptions } from "../../../python-semantics/json/index.ts";
import { bindArguments, expectIndex } from "../operations/bind-arguments.ts";
import { PythonList, PythonTuple } from "../values/containers.ts";
import { isTruthy } from "../values/iteration.ts";
import { limitError, typeError } from "../values/raise.ts";
import { originOf, TracedText } from "../values/traced-text.ts";
import { toJsonValue } from "../values/to-json.ts";
import type { Value } from "../values/value.ts";
import { originOfValue } from "../values/value-text.ts";
import type { Filter } from "./filter.ts";

const parameters = ["ensure_ascii", "indent", "separators", "sort_keys"];

export const toJson: Filter = (value, args) => {
  const [ensureAscii = false, indent = null, separators = null, sortKeys = false] = bindArguments(
    "tojson",
    args,
    parameters,
  );
  const options: DumpJsonOptions = {
    ensureAscii: isTruthy(ensureAscii),
    ...(indent === null ? {} : { indent: indentation(indent) }),
    ...(separators === null ? {} : { separators: separatorPair(separators) }),
  };
  const text = dumpJson(toJsonValue(value, isTruthy(sortKeys)), options);
  return new TracedText(text, value instanceof TracedText ? originOf(value) : originOfValue(value));
};

function indentation(indent: Value): number {
  if (!(indent instanceof TracedText)) return Math.max(0, expectIndex(indent, "tojson"));
  if (/^ *$/.test(indent.text)) return indent.text.length;
  throw limitError("it indents JSON with something else than spaces");
}

function separatorPair(separators: Value): readonly [string, string] {
  const items = separators instanceof PythonTuple || separators instanceof PythonList ? separators.items : [];
  const [item, key] = items;
  if (items.length === 2 && item instanceof TracedText && key instanceof TracedText) return [item.text, key.text];
  throw typeError("tojson wants two texts as separators");
}
