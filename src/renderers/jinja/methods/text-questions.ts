// Methods of `str` that ask of what kind its characters are.

import { bindPositional } from "../operations/bind-arguments.ts";
import { whitespaceClass } from "../values/whitespace.ts";
import type { TextMethod } from "./text-method.ts";

function question(name: string, ask: (text: string) => boolean): readonly [string, TextMethod] {
  return [
    name,
    (text, args) => {
      bindPositional(name, args, 0, 0);
      return ask(text.text);
    },
  ];
}

function matches(name: string, pattern: RegExp): readonly [string, TextMethod] {
  return question(name, (text) => pattern.test(text));
}

/** At least one cased letter, and none of the other case. */
export function isLower(text: string): boolean {
  return /\p{Lowercase}/u.test(text) && !/[\p{Uppercase}\p{Lt}]/u.test(text);
}

export function isUpper(text: string): boolean {
  return /\p{Uppercase}/u.test(text) && !/[\p{Lowercase}\p{Lt}]/u.test(text);
}

/** Capitals only after what has no case, small letters only after what has. */
function isTitle(text: string): boolean {
  let isAfterCased = false;
  let isAnyCased = false;
  for (const character of text) {
    const isCapital = /[\p{Uppercase}\p{Lt}]/u.test(character);
    const isCased = isCapital || /\p{Lowercase}/u.test(character);
    if (isCased && isCapital === isAfterCased) return false;
    isAfterCased = isCased;
    isAnyCased ||= isCased;
  }
  return isAnyCased;
}

export const textQuestionMethods: readonly (readonly [string, TextMethod])[] = [
  matches("isalpha", /^\p{L}+$/u),
  matches("isdecimal", /^\p{Nd}+$/u),
  matches("isdigit", /^[\p{Nd}\u00b2\u00b3\u00b9\u2070\u2074-\u2079\u2080-\u2089]+$/u),
  matches("isnumeric", /^\p{N}+$/u),
  matches("isalnum", /^[\p{L}\p{N}]+$/u),
  matches("isspace", new RegExp(`^[${whitespaceClass}]+$`)),
  // oxlint-disable-next-line no-control-regex
  matches("isascii", /^[\u0000-\u007f]*$/),
  matches("isidentifier", /^[\p{ID_Start}_][\p{ID_Continue}]*$/u),
  question("islower", isLower),
  question("isupper", isUpper),
  question("istitle", isTitle),
];
