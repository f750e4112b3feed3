// Regular expressions of Python's `regex` module, as response templates write them: searched from a
// position on, and tested for partial matches, which text that has not ended yet may still
// complete.

import { type LinearMatch, LinearSearch, SlowSearchError } from "../../lib/linear-search.ts";
import { parsePattern, type PatternNode, UnreadPatternError } from "../../lib/parse-pattern.ts";
import { ResponseParseError } from "./errors.ts";

/** The end of the text: without the flag "m" it is not the end of a line. */
const end = "$";
/** Classes of Python whose characters differ from JavaScript's, in the form used between brackets. */
const classes: Readonly<Record<string, string>> = {
  s: "\\p{White_Space}",
  w: "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Join_Control}\\p{Pc}",
  d: "\\p{Nd}",
};

export type PatternMatch = LinearMatch;

/**
 * A pattern with the flag DOTALL, searched in linear time, because a checkpoint may come from
 * anyone. Offsets are in UTF-16 units. Its searches throw a {@link ResponseParseError} for a text
 * that would take too long.
 */
export class PythonPattern {
  /** Names of the groups, in the order of the pattern. */
  readonly names: readonly string[];
  /** Fixed texts of two characters or more in the pattern. */
  readonly literals: readonly string[];
  readonly #search: LinearSearch;
  /** Keeps what it learned apart: the parser tests a match in another text than it searches. */
  readonly #test: LinearSearch;

  /**
   * Throws an `UnreadPatternError` or a `SyntaxError` if the source is not a pattern, or if
   * JavaScript would match it differently.
   */
  constructor(source: string) {
    const { source: translated, names } = translate(source);
    this.names = names;
    // Validates the pattern, which `parsePattern` takes for valid.
    const { flags } = new RegExp(translated, "u");
    const node = parsePattern(translated, flags);
    this.#search = new LinearSearch(node);
    this.#test = new LinearSearch(node);
    this.literals = [...new Set(fixedTexts(node))];
  }

  /** The leftmost match that begins at `from` or later. */
  find(text: string, from: number): PatternMatch | null {
    return bounded(() => this.#search.find(text, from));
  }

  /** The match that begins at `at`. */
  matchAt(text: string, at: number): PatternMatch | null {
    return bounded(() => this.#test.matchAt(text, at));
  }

  /**
   * The first position, `from` or later, from which the text up to its end is the beginning of a
   * match that more text could complete; `null` if there is none.
   */
  mayBegin(text: string, from: number): Pick<PatternMatch, "start"> | null {
    const start = bounded(() => this.#search.findCut(text, from));
    return start === null ? null : { start };
  }

  /** All matches, as Python's `finditer` yields them. */
  *all(text: string): Generator<PatternMatch> {
    let from = 0;
    while (from <= text.length) {
      const found = this.find(text, from);
      if (found === null) return;
      yield found;
      const isEmpty = found.end === found.start;
      from = isEmpty ? found.end + ((text.codePointAt(found.end) ?? 0) > 0xffff ? 2 : 1) : found.end;
    }
  }
}

function bounded<T>(search: () => T): T {
  try {
    return search();
  } catch (error) {
    if (!(error instanceof SlowSearchError)) throw error;
    throw new ResponseParseError("one of its template's patterns would take too long on it");
  }
}

/** Translates the pattern to JavaScript, with the flag "u". */
function translate(source: string): { readonly source: string; readonly names: readonly string[] } {
  const names: string[] = [];
  let written = "";
  let at = 0;
  const take = (pattern: RegExp): string | null => {
    pattern.lastIndex = at;
    const [found = null] = pattern.exec(source) ?? [];
    at += found?.length ?? 0;
    return found;
  };
  while (at < source.length) {
    const character = source[at]!;
    if (character === "\\") written += escaped(take(/\\[^]/uy), false);
    else if (character === "[") written += bracketed(take(/\[\^?\]?(?:\\[^]|[^\]\\])*\]/uy));
    else if (character === "(") {
      const opening = take(/\((?:\?(?:P?<([A-Za-z_]\w*)>|[:=!]|<[=!]))?/y)!;
      if (opening === "(" && source[at] === "?")
        throw new UnreadPatternError(`it has a group "(${source.slice(at, at + 2)}"`);
      const [, name] = /<(\w+)>/.exec(opening) ?? [];
      if (name !== undefined) names.push(name);
      written += opening.replace("?P<", "?<");
    } else if (/[*+?{]/.test(character)) {
      const quantifier = take(/(?:[*+?]|\{\d+(?:,\d*)?\}|\{,\d+\})[?+]?/y);
      if (quantifier?.endsWith("+") === true && quantifier.length > 1)
        throw new UnreadPatternError("it has a possessive repetition");
      if (quantifier === null) at++;
      written += quantifier?.replace("{,", "{0,") ?? "\\{";
    } else {
      at++;
      if (character === "$") written += `(?=\\n?${end})`;
      else if (character === "^") written += "^";
      else if (character === ".") written += "[^]";
      else written += character === "}" || character === "]" ? `\\${character}` : character;
    }
  }
  return { source: written, names };
}

/** `sequence`: a backslash and the character after it. */
function escaped(sequence: string | null, isInClass: boolean): string {
  const character = sequence?.slice(1) ?? "";
  const inside = classes[character];
  if (inside !== undefined) return isInClass ? inside : `[${inside}]`;
  const outside = classes[character.toLowerCase()];
  if (outside !== undefined && !isInClass) return `[^${outside}]`;
  if (character === "Z" && !isInClass) return end;
  if (character === "A" && !isInClass) return "^";
  if (/^[nrtfv]$/.test(character)) return `\\${character}`;
  // Syntax characters need their backslash; others have no meaning in JavaScript, and in Python
  // only letters and digits have one.
  if (/^[$()*+./?[\\\]^{|}-]$/.test(character)) return character === "-" && !isInClass ? "-" : `\\${character}`;
  if (character === "" || /^[A-Za-z0-9]$/.test(character)) throw new UnreadPatternError(`it has "\\${character}"`);
  return character;
}

function bracketed(text: string | null): string {
  if (text === null) throw new UnreadPatternError("a class does not end");
  const [, isNegated = "", inside = ""] = /^\[(\^?)([^]*)\]$/.exec(text) ?? [];
  if (/\[[:.=]|--|&&|\|\||~~|\[/.test(inside.replaceAll(/\\[^]/g, "")))
    throw new UnreadPatternError(`it has the class "${text}"`);
  const parts = inside.match(/\\[^]|[^\\]/gu) ?? [];
  const [without, ...complements] = [
    parts.filter((part) => !/^\\[SWD]$/.test(part)),
    ...parts.filter((part) => /^\\[SWD]$/.test(part)),
  ] as [string[], ...string[]];
  const own = without.map((part) => (part.startsWith("\\") ? escaped(part, true) : part.replace("]", "\\]"))).join("");
  if (complements.length === 0) return `[${isNegated}${own}]`;
  const either = `(?:[${own}]|${complements.map((part) => escaped(part, false)).join("|")})`;
  return isNegated === "" ? either : `(?!${either})[^]`;
}

/** Runs of literal characters. */
function fixedTexts(node: PatternNode): string[] {
  switch (node.type) {
    case "choice":
      return node.options.flatMap(fixedTexts);
    case "repeat":
    case "look":
    case "group":
      return fixedTexts(node.body);
    case "sequence": {
      const texts = [""];
      for (const part of node.parts) {
        const character = part.type === "set" ? literalOf(part.source) : null;
        if (character === null) texts.push(...fixedTexts(part), "");
        else texts.push(`${texts.pop() ?? ""}${character}`);
      }
      return texts.filter((text) => text.length > 1);
    }
    default:
      return [];
  }
}

function literalOf(source: string): string | null {
  if (source.startsWith("[") || /^\\[a-zA-Z]/.test(source)) return null;
  return source.startsWith("\\") ? source.slice(1) : source;
}
