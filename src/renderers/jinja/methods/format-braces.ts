// Python's `text.format(...)`, as the sandbox lets templates use it.

import { PythonDict } from "../values/containers.ts";
import { escapeText } from "../values/escape.ts";
import { pythonError, valueError } from "../values/raise.ts";
import { concatTexts, unknownOrigin, TracedText } from "../values/traced-text.ts";
import { type CallArguments, Undefined, type Value } from "../values/value.ts";
import { reprOf, textOf } from "../values/value-text.ts";
import { formatValue } from "./format-spec.ts";

/** A doubled brace, a field with its conversion and format, or a brace that stands alone. */
const field = /\{\{|\}\}|\{([^{}!:]*)(?:!([^{}:]*))?(?::((?:[^{}]|\{[^{}]*\})*))?\}|[{}]/g;

/** Follows `.name` or `[key]` from a value. */
export type Step = (value: Value, access: string) => Value;

/** `format.format(*args, **kwargs)`. Throws an "IndexError" or a "KeyError" for a field without a value. */
export function formatBraces(format: TracedText, args: CallArguments, step: Step): TracedText {
  const parts: TracedText[] = [];
  let offset = 0;
  let automatic = 0;
  const valueOf = (name: string): Value => {
    const [first = "", ...rest] = name.split(/(?=[.[])/);
    const key = first === "" ? String(automatic++) : first;
    const start = /^\d+$/.test(key) ? args.positional[Number(key)] : args.named.get(key);
    if (start === undefined) {
      throw pythonError(/^\d+$/.test(key) ? "IndexError" : "KeyError", `a format has no value for the field "${key}"`);
    }
    return rest.reduce(step, start);
  };
  for (const match of format.text.matchAll(field)) {
    const [whole, name, conversion, spec = ""] = match;
    parts.push(format.slice(offset, match.index));
    offset = match.index + whole.length;
    if (name === undefined) {
      if (whole.length === 1) throw valueError("a format has a brace that stands alone");
      parts.push(format.slice(offset - 1, offset));
      continue;
    }
    const value = valueOf(name);
    const inner = spec.replace(/\{([^{}]*)\}/g, (_, nested: string) => textOf(valueOf(nested)).text);
    const text = formatField(value, conversion, inner);
    const isSafe = value instanceof TracedText && value.isMarkup;
    parts.push(format.isMarkup ? escapeText(text.asMarkup(isSafe)) : text);
  }
  parts.push(format.slice(offset));
  return concatTexts(parts).asMarkup(format.isMarkup);
}

/** `format.format_map(values)`. */
export function formatMap(format: TracedText, values: Value, step: Step): TracedText {
  const named = new Map<string, Value>();
  if (values instanceof PythonDict) {
    for (const { key, value } of values.entries.values()) if (key instanceof TracedText) named.set(key.text, value);
  }
  return formatBraces(format, { positional: [], named }, step);
}

function formatField(value: Value, conversion: string | undefined, spec: string): TracedText {
  switch (conversion) {
    case undefined:
      return value instanceof Undefined && spec === "" ? textOf(value) : formatValue(value, spec);
    case "s":
      return formatValue(textOf(value), spec);
    case "r":
    case "a":
      return formatValue(new TracedText(reprOf(value), unknownOrigin), spec);
    default:
      throw valueError(`"${conversion}" is no conversion of a format`);
  }
}
