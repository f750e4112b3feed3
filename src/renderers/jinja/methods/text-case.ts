// Methods of `str` that change letters.

import { pythonLower } from "../../../python-semantics/index.ts";
import { bindPositional } from "../operations/bind-arguments.ts";
import type { TracedText } from "../values/traced-text.ts";
import type { TextMethod } from "./text-method.ts";

/** A method without arguments that maps the text as a whole. */
function mapped(name: string, map: (text: string) => string): [string, TextMethod] {
  return [
    name,
    (text: TracedText, args) => {
      bindPositional(name, args, 0, 0);
      return text.with(map(text.text));
    },
  ];
}

export function capitalize(text: string): string {
  const [first = ""] = text;
  return titleCharacter(first) + pythonLower(text.slice(first.length));
}

/** `str.title`: the first letter of every run of letters is capital. Jinja's filter of that name splits words differently. */
function title(text: string): string {
  return text.replace(/\p{Cased}[\p{Cased}\p{M}]*/gu, (word) => capitalize(word));
}

function swapCase(text: string): string {
  return Array.from(text, (character) => {
    const lower = character.toLowerCase();
    return lower === character ? character.toUpperCase() : lower;
  }).join("");
}

/** Titlecase: a capital, except for the four digraphs that have a form of their own, and for ligatures. */
function titleCharacter(character: string): string {
  const upper = character.toUpperCase();
  const digraph = "ǅǈǋǲ"["ǄǇǊǱ".indexOf(upper)];
  if (digraph !== undefined && upper.length === 1 && "ǄǇǊǱ".includes(upper)) return digraph;
  if (character === "ŉ") return upper;
  return upper.length > character.length ? upper[0] + upper.slice(1).toLowerCase() : upper;
}

export const textCaseMethods: readonly (readonly [string, TextMethod])[] = [
  mapped("upper", (text) => text.toUpperCase()),
  mapped("lower", pythonLower),
  mapped("casefold", (text) => pythonLower(text).replaceAll("ß", "ss")),
  mapped("capitalize", capitalize),
  mapped("title", title),
  mapped("swapcase", swapCase),
];
