// What `attribute="a.b.0"` means to filters: keys, one after the other, those made of digits as numbers.

import { pythonLower } from "../../../python-semantics/index.ts";
import { getItem } from "../operations/lookup.ts";
import { templateText, TracedText } from "../values/traced-text.ts";
import { Undefined, type Value } from "../values/value.ts";

export type Getter = (item: Value) => Value;

/** Follows the path; `null` is the item itself. Where something is undefined on the way, `otherwise` stands in for it. */
export function attributeGetter(path: Value, otherwise: Value = null): Getter {
  const keys = pathKeys(path);
  return (item) =>
    keys.reduce((value: Value, key) => {
      const next = getItem(value, key);
      return next instanceof Undefined && otherwise !== null ? otherwise : next;
    }, item);
}

/** Texts without their case, everything else as it is. */
export function ignoreCase(value: Value): Value {
  return value instanceof TracedText ? value.with(pythonLower(value.text)) : value;
}

/** The same, for several paths between commas. */
export function attributeGetters(paths: Value): readonly Getter[] {
  if (!(paths instanceof TracedText)) return [attributeGetter(paths)];
  return paths.text.split(",").map((path) => attributeGetter(templateText(path)));
}

function pathKeys(path: Value): readonly Value[] {
  if (path === null) return [];
  if (!(path instanceof TracedText)) return [path];
  return path.text.split(".").map((key) => (/^\d+$/.test(key) ? Number(key) : templateText(key)));
}
