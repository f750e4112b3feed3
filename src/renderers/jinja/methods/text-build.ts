// Methods of `str` that make a text of several, or fill one up.

import { bindArguments, bindPositional, expectIndex, expectText } from "../operations/bind-arguments.ts";
import { checkTextLength } from "../limits.ts";
import { codePointLength } from "../values/code-points.ts";
import { escapeText } from "../values/escape.ts";
import { itemsOf } from "../values/iteration.ts";
import { typeError } from "../values/raise.ts";
import { concatTexts, templateText, TracedText } from "../values/traced-text.ts";
import { typeNameOf } from "../values/type-name.ts";
import type { CallArguments } from "../values/value.ts";
import type { TextMethod } from "./text-method.ts";

/** `text.replace(old, replacement, count)`; a negative count replaces all. */
export function replaceText(text: TracedText, old: TracedText, replacement: TracedText, count: number): TracedText {
  const most = count < 0 ? Infinity : count;
  const parts: TracedText[] = [];
  let start = 0;
  let length = text.text.length;
  for (const at of placesOf(text.text, old.text, most)) {
    parts.push(text.slice(start, at), replacement);
    checkTextLength((length += replacement.text.length - old.text.length));
    start = at + old.text.length;
  }
  if (parts.length === 0) return text;
  return concatTexts([...parts, text.slice(start)]).asMarkup(text.isMarkup);
}

/** Where a text is found, left to right without overlap; an empty one stands between all characters. */
function* placesOf(text: string, wanted: string, most: number): Iterable<number> {
  let found = 0;
  if (wanted === "") {
    for (let at = 0; at <= text.length && found < most; found++) {
      yield at;
      at += text.codePointAt(at)! > 0xffff ? 2 : 1;
    }
    return;
  }
  for (let at = text.indexOf(wanted); at !== -1 && found < most; at = text.indexOf(wanted, at + wanted.length)) {
    found++;
    yield at;
  }
}

/** `separator.join(parts)`. */
export function joinTexts(separator: TracedText, parts: readonly TracedText[]): TracedText {
  const length = parts.reduce((sum, { text }) => sum + text.length + separator.text.length, 0);
  checkTextLength(length);
  if (separator.text === "") return concatTexts(parts);
  return concatTexts(parts.flatMap((part, index) => (index === 0 ? [part] : [separator, part])));
}

function join(separator: TracedText, args: CallArguments): TracedText {
  const parts = itemsOf(bindPositional("join", args, 1, 1)[0]!).map((item) => {
    if (item instanceof TracedText) return separator.isMarkup ? escapeText(item) : item;
    throw typeError(`join wants texts, not a ${typeNameOf(item)}`);
  });
  return joinTexts(separator, parts).asMarkup(separator.isMarkup);
}

/** The text in the middle of so many characters, or at one side. */
export function fillText(
  text: TracedText,
  width: number,
  options: { side: "left" | "right" | "both"; fill: string },
): TracedText {
  const missing = width - codePointLength(text.text);
  if (missing <= 0) return text;
  checkTextLength(width);
  // CPython gives the odd character to the left when width is odd too.
  const half = Math.floor(missing / 2) + (missing & width & 1);
  const before = options.side === "left" ? 0 : options.side === "right" ? missing : half;
  const fill = (count: number): TracedText => templateText(options.fill.repeat(count));
  return concatTexts([fill(before), text, fill(missing - before)]).asMarkup(text.isMarkup);
}

function filling(name: string, side: "left" | "right" | "both"): readonly [string, TextMethod] {
  return [
    name,
    (text, args) => {
      const [width, fill = templateText(" ")] = bindPositional(name, args, 1, 2);
      const character = expectText(fill, name).text;
      if (codePointLength(character) !== 1) throw typeError(`${name} fills with one character`);
      return fillText(text, expectIndex(width!, name), { side, fill: character });
    },
  ];
}

function fillZeros(text: TracedText, args: CallArguments): TracedText {
  const width = expectIndex(bindPositional("zfill", args, 1, 1)[0]!, "zfill");
  const signLength = /^[+-]/.test(text.text) ? 1 : 0;
  const digits = fillText(text.slice(signLength), width - signLength, { side: "right", fill: "0" });
  return concatTexts([text.slice(0, signLength), digits]);
}

function expandTabs(text: TracedText, args: CallArguments): TracedText {
  const size = expectIndex(bindArguments("expandtabs", args, ["tabsize"])[0] ?? 8, "expandtabs");
  let column = 0;
  const parts = Array.from(text.text, (character) => {
    const width = character !== "\t" ? 1 : size > 0 ? size - (column % size) : 0;
    column = character === "\n" || character === "\r" ? 0 : column + width;
    return character === "\t" ? " ".repeat(width) : character;
  });
  return text.with(parts.join(""));
}

export const textBuildMethods: readonly (readonly [string, TextMethod])[] = [
  [
    "replace",
    (text, args) => {
      const [old, replacement, count = -1] = bindPositional("replace", args, 2, 3);
      const inserted = expectText(replacement!, "replace");
      const safe = text.isMarkup ? escapeText(inserted) : inserted;
      return replaceText(text, expectText(old!, "replace"), safe, expectIndex(count, "replace"));
    },
  ],
  ["join", join],
  filling("center", "both"),
  filling("ljust", "left"),
  filling("rjust", "right"),
  ["zfill", fillZeros],
  ["expandtabs", expandTabs],
];
