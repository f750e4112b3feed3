// Rewrites of LFM2's output that is nearly Python, each keeping the model's meaning: raw line
// breaks in strings, integers with leading zeros, quotes inside quotes of the same kind, arguments
// named like a keyword.

import { isSpace, pythonInt, pythonStrip, space, unlessRaised } from "../../python-semantics/index.ts";
import { literalErrors } from "../../python-semantics/literals.ts";
import { parseFirstStatementValue } from "../../python-semantics/syntax.ts";

/**
 * Total number of characters in attempts to parse a text with another reading of its quotes: each
 * attempt may be as long as the text, and there may be as many as it has quotes. A text that needs
 * more stays unread, which is the only difference from SGLang.
 */
const maxAttemptedCharacters = 500_000;
const maxRereads = 64;

export class ParseBudget {
  #left: number;

  constructor(length: number) {
    this.#left = Math.min(maxAttemptedCharacters, maxRereads * Math.max(length, 1_000));
  }

  /** False if an attempt of that length exceeds the budget. */
  takes(length: number): boolean {
    this.#left -= length;
    return this.#left >= 0;
  }
}

export type Rewrite = { readonly text: string; readonly isRenamed: boolean };

/** The rewrites of a source in the order in which they are tried. */
export function* rewrites(source: string, budget: ParseBudget): Generator<Rewrite> {
  const escaped = escapeControls(withoutLeadingZeros(source));
  yield { text: escaped, isRenamed: false };
  const texts = [escaped];
  const requoted = escapeInnerQuotes(escaped, budget);
  if (requoted !== null) {
    texts.push(escapeControls(requoted));
    yield { text: texts[1]!, isRenamed: false };
  }
  for (const text of texts) {
    const renamed = renameReserved(text);
    if (renamed === null) continue;
    yield { text: renamed, isRenamed: true };
    const both = escapeInnerQuotes(renamed, budget);
    if (both !== null) yield { text: escapeControls(both), isRenamed: true };
  }
}

/**
 * A piece of source: a string with its quotes, the last one perhaps open, or the text between
 * strings.
 */
type Piece = { readonly isString: boolean; readonly text: string };

const quotes = /["']/g;
const stringEnds = { '"': /\\[^]|"/g, "'": /\\[^]|'/g } as const;

function* piecesOf(source: string): Generator<Piece> {
  for (let at = 0; at < source.length;) {
    quotes.lastIndex = at;
    const start = quotes.exec(source)?.index ?? source.length;
    if (start > at) yield { isString: false, text: source.slice(at, start) };
    if (start === source.length) return;
    at = stringEnd(source, start + 1, source[start] as '"' | "'");
    yield { isString: true, text: source.slice(start, at) };
  }
}

/** Position after the quote that ends a string whose content begins at `start`. */
function stringEnd(source: string, start: number, quote: '"' | "'"): number {
  const ends = stringEnds[quote];
  ends.lastIndex = start;
  for (let match = ends.exec(source); match !== null; match = ends.exec(source)) {
    if (match[0] === quote) return ends.lastIndex;
  }
  return source.length;
}

const controls: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\x00" };

/** Escapes raw control characters in strings; one that follows a backslash belongs to it. */
function escapeControls(source: string): string {
  return Array.from(piecesOf(source), ({ isString, text }) =>
    isString ? text.replaceAll(/\\[^]|[\n\r\t\0]/g, (found) => controls[found] ?? found) : text,
  ).join("");
}

const words = /(?<word>[\p{L}_][\p{L}\p{N}_]*)|(?<digits>\p{Nd}[\p{Nd}_]*)/gu;

/** Decimal integers outside of strings without leading zeros. */
function withoutLeadingZeros(source: string): string {
  let before = "";
  return Array.from(piecesOf(source), ({ isString, text }) => {
    const code = isString
      ? text
      : text.replaceAll(words, (found, ...details) => {
          const offset = details.at(-3) as number;
          const digits = found.replaceAll("_", "");
          const isPadded = digits.startsWith("0") && /[^0]/.test(digits) && /^\p{Nd}/u.test(found);
          const previous = offset > 0 ? text[offset - 1]! : before;
          const next = text[offset + found.length] ?? "";
          if (!isPadded || previous === "." || (next !== "" && ".eEjJ".includes(next))) return found;
          return String(pythonInt(digits));
        });
    before = text.at(-1)!;
    return code;
  }).join("");
}

const reserved = new Set(
  (
    "False None True and as assert async await break class continue def del elif else except finally for from global if import in " +
    "is lambda nonlocal not or pass raise return try while with yield"
  ).split(" "),
);
const suffix = "_pyreservedkw_";

/** The reserved name that a stand-in replaces; `undefined` if the name is not a stand-in. */
export function isReservedStandIn(name: string): string | undefined {
  const original = name.endsWith(suffix) ? name.slice(0, -suffix.length) : "";
  return reserved.has(original) ? original : undefined;
}

const assigned = new RegExp(`${space}*=(?!=)`, "uy");

/** Replaces reserved argument names with stand-ins; `null` if there are none. */
function renameReserved(source: string): string | null {
  let isChanged = false;
  /** The last character before a piece that is not white space. */
  let before = "";
  const renamed = Array.from(piecesOf(source), ({ isString, text }) => {
    const code = isString
      ? text
      : text.replaceAll(words, (found, ...details) => {
          if (!reserved.has(found)) return found;
          const offset = details.at(-3) as number;
          const previous = lastSign(text, offset) ?? before;
          assigned.lastIndex = offset + found.length;
          if ((previous !== "(" && previous !== ",") || !assigned.test(text)) return found;
          isChanged = true;
          return found + suffix;
        });
    before = isString ? text[0]! : (lastSign(text, text.length) ?? before);
    return code;
  });
  return isChanged ? renamed.join("") : null;
}

/** The last character before a place that is not white space. */
function lastSign(text: string, end: number): string | undefined {
  let at = end - 1;
  while (at >= 0 && isSpace(text[at]!)) at--;
  return text[at];
}

const followers = new RegExp(`${space}*[,)\\]}:]`, "uy");

function mayClose(source: string, quoteAt: number): boolean {
  followers.lastIndex = quoteAt + 1;
  return followers.test(source);
}

/**
 * Escapes quotes inside the first string that its next quote cannot end, up to the only quote that
 * makes the whole source parse. `null` without such a string, or without exactly one such quote.
 */
function escapeInnerQuotes(source: string, budget: ParseBudget): string | null {
  let start = 0;
  for (const { isString, text } of piecesOf(source)) {
    const end = start + text.length;
    if (isString) {
      if (!isClosed(text)) return null;
      if (!mayClose(source, end - 1)) return requote(source, start, budget);
    }
    start = end;
  }
  return null;
}

/** True if the last character of a string is its closing quote, not an escaped one. */
const isClosed = (text: string): boolean => text.slice(1).replaceAll(/\\[^]/g, "").endsWith(text[0]!);

function requote(source: string, start: number, budget: ParseBudget): string | null {
  const quote = source[start] as '"' | "'";
  const expected = splitCalls(source, false).length;
  let found: string | null = null;
  const before = source.slice(0, start + 1);
  const interior: string[] = [];
  let copied = start + 1;
  const ends = new RegExp(stringEnds[quote].source, "g");
  ends.lastIndex = copied;
  for (let match = ends.exec(source); match !== null; match = ends.exec(source)) {
    if (match[0] !== quote) continue;
    interior.push(source.slice(copied, match.index));
    copied = match.index;
    if (mayClose(source, match.index)) {
      if (!budget.takes(source.length)) return null;
      const candidate = before + interior.join("") + source.slice(match.index);
      if (holdsCalls(escapeControls(candidate), expected)) {
        if (found !== null) return null;
        found = candidate;
      }
    }
    interior.push("\\");
  }
  return found;
}

/** True if Python accepts a source and reads at least as many calls in it as its brackets show. */
function holdsCalls(source: string, expected: number): boolean {
  const value = unlessRaised(literalErrors, () => parseFirstStatementValue(source));
  if (value === undefined) return false;
  const nodes = value?.type === "list" ? value.items : value === null ? [] : [value];
  return expected <= 1 || nodes.filter(({ type }) => type === "call").length >= expected;
}

/**
 * Splits a block at commas outside of all brackets. `respectsStrings`: ignores brackets and commas
 * in strings.
 */
export function splitCalls(source: string, respectsStrings: boolean): readonly string[] {
  const stripped = pythonStrip(source);
  const text =
    stripped.startsWith("[") && stripped.endsWith("]") && stripped.length > 1 ? stripped.slice(1, -1) : stripped;
  const segments: string[] = [];
  let depth = 0;
  let start = 0;
  let at = 0;
  for (const piece of respectsStrings ? piecesOf(text) : [{ isString: false, text }]) {
    const end = at + piece.text.length;
    for (; at < end && !piece.isString; at++) {
      const sign = text[at]!;
      if ("([{".includes(sign)) depth++;
      else if (")]}".includes(sign)) depth--;
      else if (sign === "," && depth === 0) {
        segments.push(text.slice(start, at));
        start = at + 1;
      }
    }
    at = end;
  }
  segments.push(text.slice(start));
  return segments.map((segment) => pythonStrip(segment)).filter((segment) => segment !== "");
}
