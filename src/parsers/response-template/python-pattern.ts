// Regular expressions of Python's `regex` module, as response templates write them: searched from a
// position on, and tested for partial matches, which text that has not ended yet may still
// complete.

import { parsePattern, type PatternNode, UnreadPatternError } from "../../lib/parse-pattern.ts";

export type PatternMatch = {
  readonly start: number;
  readonly end: number;
  /** Text of the named groups that took part in the match. */
  readonly captures: ReadonlyMap<string, string>;
};

/** The end of the text: without the flag "m" it is not the end of a line. */
const end = "$";
/** Classes of Python whose characters differ from JavaScript's, in the form used between brackets. */
const classes: Readonly<Record<string, string>> = {
  s: "\\p{White_Space}",
  w: "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Join_Control}\\p{Pc}",
  d: "\\p{Nd}",
};

/** A pattern with the flag DOTALL. Offsets are in UTF-16 units. */
export class PythonPattern {
  /** Names of the groups, in the order of the pattern. */
  readonly names: readonly string[];
  /** Fixed texts of two characters or more in the pattern. */
  readonly literals: readonly string[];
  readonly #source: string;
  readonly #node: PatternNode;
  readonly #match: RegExp;
  // Created on first use: a pattern that is only matched at a position may be slow to search with.
  #search: RegExp | null = null;
  #partial: RegExp | null = null;

  /**
   * Throws an `UnreadPatternError` or a `SyntaxError` if the source is not a pattern, or if
   * JavaScript would match it differently.
   */
  constructor(source: string) {
    const { source: translated, names } = translate(source);
    this.names = names;
    this.#source = translated;
    this.#match = new RegExp(translated, "yu");
    this.#node = parsePattern(translated, "u");
    this.literals = [...new Set(fixedTexts(this.#node))];
  }

  /** The leftmost match that begins at `from` or later. */
  find(text: string, from: number): PatternMatch | null {
    return run(this.#searching(), text, from);
  }

  /** The match that begins at `at`. */
  matchAt(text: string, at: number): PatternMatch | null {
    return run(this.#match, text, at);
  }

  /**
   * The first position, `from` or later, from which the text up to its end is the beginning of a
   * match that more text could complete.
   */
  mayBegin(text: string, from: number): PatternMatch | null {
    this.#partial ??= new RegExp(partial(this.#node), "gu");
    return run(this.#partial, text, from);
  }

  /** All matches, as Python's `finditer` yields them. */
  *all(text: string): Generator<PatternMatch> {
    for (const found of text.matchAll(this.#searching())) yield matchOf(found);
  }

  #searching(): RegExp {
    this.#search ??= new RegExp(this.#source, "gu");
    return this.#search;
  }
}

function run(pattern: RegExp, text: string, from: number): PatternMatch | null {
  pattern.lastIndex = from;
  const found = pattern.exec(text);
  pattern.lastIndex = 0;
  return found === null ? null : matchOf(found);
}

function matchOf(found: RegExpExecArray): PatternMatch {
  const groups = Object.entries(found.groups ?? {}) as [string, string | undefined][];
  return {
    start: found.index,
    end: found.index + found[0].length,
    captures: new Map(groups.flatMap(([name, text]) => (text === undefined ? [] : [[name, text]]))),
  };
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

/** Source of a node, without the names of its groups. */
function sourceOf(node: PatternNode): string {
  switch (node.type) {
    case "set":
      return node.source;
    case "sequence":
      return node.parts.map(sourceOf).join("");
    case "choice":
      return `(?:${node.options.map(sourceOf).join("|")})`;
    case "repeat":
      return `(?:${sourceOf(node.body)}){${node.min},${node.max === Infinity ? "" : node.max}}`;
    case "edge":
      return { start: "^", end: "$", word: "\\b", "no-word": "\\B" }[node.edge];
    case "look":
      return `(?${node.isAhead ? "" : "<"}${node.isNegative ? "!" : "="}${sourceOf(node.body)})`;
    default:
      return node satisfies never;
  }
}

const never = "[]";

/** Source of a pattern for the beginning of a match of a node that the end of the text truncates. */
function partial(node: PatternNode): string {
  switch (node.type) {
    case "set":
      return end;
    case "sequence": {
      // Truncated in the first part, or in one of the parts that follow it.
      const [first, ...rest] = node.parts;
      if (first === undefined) return never;
      return rest.length === 0
        ? partial(first)
        : `(?:${partial(first)}|${sourceOf(first)}${partial({ type: "sequence", parts: rest })})`;
    }
    case "choice":
      return `(?:${node.options.map(partial).join("|")})`;
    case "repeat":
      return node.max === 0
        ? never
        : `(?:${sourceOf(node.body)}){0,${node.max === Infinity ? "" : node.max - 1}}${partial(node.body)}`;
    case "look":
      return node.isAhead && !node.isNegative ? partial(node.body) : never;
    case "edge":
      return never;
    default:
      return node satisfies never;
  }
}
