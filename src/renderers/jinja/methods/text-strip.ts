// Methods of `str` that take something off the ends.

import { pythonLstrip, pythonRstrip } from "../../../python-semantics/index.ts";
import { bindPositional, expectText } from "../operations/bind-arguments.ts";
import { typeError } from "../values/raise.ts";
import { TracedText } from "../values/traced-text.ts";
import { typeNameOf } from "../values/type-name.ts";
import type { Value } from "../values/value.ts";
import type { TextMethod } from "./text-method.ts";

/** `text.strip(characters)`; None strips white space. */
export function strip(
  text: TracedText,
  characters: Value = null,
  sides: "both" | "left" | "right" = "both",
): TracedText {
  if (characters !== null && !(characters instanceof TracedText)) {
    throw typeError(`strip wants a text or None, not a ${typeNameOf(characters)}`);
  }
  const set = characters?.text;
  const end = sides === "left" ? text.text.length : pythonRstrip(text.text, set).length;
  const kept = text.text.slice(0, end);
  const start = sides === "right" ? 0 : kept.length - pythonLstrip(kept, set).length;
  return start === 0 && end === text.text.length ? text : text.slice(start, end);
}

function stripping(name: string, sides: "both" | "left" | "right"): readonly [string, TextMethod] {
  return [name, (text, args) => strip(text, bindPositional(name, args, 0, 1)[0], sides)];
}

export const textStripMethods: readonly (readonly [string, TextMethod])[] = [
  stripping("strip", "both"),
  stripping("lstrip", "left"),
  stripping("rstrip", "right"),
  [
    "removeprefix",
    (text, args) => {
      const prefix = expectText(bindPositional("removeprefix", args, 1, 1)[0]!, "removeprefix");
      return text.text.startsWith(prefix.text) ? text.slice(prefix.text.length) : text;
    },
  ],
  [
    "removesuffix",
    (text, args) => {
      const suffix = expectText(bindPositional("removesuffix", args, 1, 1)[0]!, "removesuffix");
      const isThere = suffix.text !== "" && text.text.endsWith(suffix.text);
      return isThere ? text.slice(0, text.text.length - suffix.text.length) : text;
    },
  ],
];
