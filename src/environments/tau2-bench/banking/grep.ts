// The search of documents by a regular expression of Python, ranked by the number of matches. A
// pattern comes from a model, so all texts together are searched within one budget: by JavaScript's
// own search, which may take exponential time, only if its work is known to be small.

import { LinearSearch, type SearchBudget, SlowSearchError } from "../../../lib/linear-search.ts";
import { type PatternNode, UnreadPatternError } from "../../../lib/parse-pattern.ts";
import { PythonError } from "../../../python-semantics/index.ts";
import type { Hit } from "./bm25.ts";
import { PatternSyntaxError, readPythonPattern } from "./python-regex.ts";

/** Maximum number of characters that JavaScript's own search may test in one search: about half a second. */
const mostTests = 150_000_000;

/** Characters that a repetition up to the end of a line is taken to test. */
const lineLength = 400;

/**
 * Maximum number of steps of one search, in all documents together: about a second. A pattern
 * such as ".*fee.*", which visits most characters of upstream's documents, takes a million.
 */
const mostSteps = 10_000_000;

/** Maximum length of a pattern, in UTF-16 units. */
const longestPattern = 1000;

/** Maximum work of one search, in all documents together. */
export type SearchLimits = {
  /** Characters that JavaScript's own search tests, at most; a pattern that may test more is searched in steps. */
  readonly tests: number;
  /** States that a search in steps visits. */
  readonly steps: number;
};

export class Grep {
  readonly #texts: readonly string[];
  readonly #limits: SearchLimits;
  readonly #length: number;
  /** The texts for the test that a document contains the literals of a pattern. */
  #folded: readonly string[] | null = null;

  constructor(texts: readonly string[], limits: SearchLimits = { tests: mostTests, steps: mostSteps }) {
    this.#texts = texts;
    this.#limits = limits;
    this.#length = texts.reduce((sum, { length }) => sum + length, 0);
  }

  /**
   * The documents with the most matches, equal ones in their order. A text that Python
   * refuses as a pattern is searched literally. Throws a `PythonError` for a pattern that cannot be
   * searched, or not within the steps.
   */
  search(pattern: string, most: number): Hit[] {
    const node = this.#read(pattern);
    const literals = requiredTexts(node)?.map(fold) ?? null;
    const count = limited(() => this.#counter(node));
    this.#folded ??= this.#texts.map(fold);
    const hits: Hit[] = [];
    for (const [index, text] of this.#texts.entries()) {
      if (literals !== null && !literals.some((literal) => this.#folded![index]!.includes(literal))) continue;
      const score = limited(() => count(text));
      if (score > 0) hits.push({ index, score });
    }
    return hits.sort((left, right) => right.score - left.score).slice(0, most);
  }

  #read(pattern: string): PatternNode {
    if (pattern.length > longestPattern) throw refused("it is too long");
    try {
      return readPythonPattern(pattern);
    } catch (error) {
      if (error instanceof UnreadPatternError) throw refused(error.message);
      if (!(error instanceof PatternSyntaxError)) throw error;
    }
    const parts = Array.from(pattern, (character): PatternNode => {
      return { type: "set", source: `\\u{${character.codePointAt(0)!.toString(16)}}` };
    });
    return { type: "sequence", parts };
  }

  /**
   * Counts the matches in a text. After an empty match Python tries the same position again, for a
   * match that is not empty.
   */
  #counter(node: PatternNode): (text: string) => number {
    const budget = { steps: this.#limits.steps };
    const find = this.#finder(node, "g", budget);
    const findMore = mayBeEmpty(node) ? this.#finder(withoutEmpty(node), "y", budget) : null;
    return (text) => {
      let count = 0;
      for (let from = 0; from <= text.length;) {
        const found = find(text, from);
        if (found === null) break;
        count++;
        from = found.end;
        if (found.end > found.start) continue;
        const more = findMore?.(text, from) ?? null;
        if (more !== null) count++;
        from = more === null ? after(text, from) : more.end;
      }
      return count;
    };
  }

  /** `place`: "g" to search from the offset on, "y" to match at the offset. */
  #finder(node: PatternNode, place: "g" | "y", budget: SearchBudget): Finder {
    if (workOf(node).tests * this.#length <= this.#limits.tests) {
      const pattern = new RegExp(sourceOf(node), `iu${place}`);
      return (text, from) => {
        pattern.lastIndex = from;
        const found = pattern.exec(text);
        return found === null ? null : { start: found.index, end: found.index + found[0].length };
      };
    }
    const search = new LinearSearch(node, { ignoresCase: true, budget });
    return (text, from) => (place === "g" ? search.find(text, from) : search.matchAt(text, from));
  }
}

/** Finds the first match from an offset on, or only at the offset. */
type Finder = (text: string, from: number) => { readonly start: number; readonly end: number } | null;

const refused = (reason: string): PythonError =>
  new PythonError("limit", `Cannot search for this pattern: ${reason}; use a simpler one.`);

/** Lower case, in which characters that match each other are equal. */
const fold = (text: string): string => text.toLowerCase().replaceAll("ſ", "s");

const after = (text: string, at: number): number => at + ((text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1);

function limited<Result>(action: () => Result): Result {
  try {
    return action();
  } catch (error) {
    if (error instanceof UnreadPatternError) throw refused(error.message);
    if (error instanceof SlowSearchError) throw refused("it takes too long");
    throw error;
  }
}

const nothing: PatternNode = { type: "sequence", parts: [] };
const never: PatternNode = { type: "choice", options: [] };

/** The pattern without its empty matches, in the order in which it prefers the others. */
function withoutEmpty(node: PatternNode): PatternNode {
  switch (node.type) {
    case "set":
      return node;
    case "edge":
    case "look":
      return never;
    case "group":
      return withoutEmpty(node.body);
    case "choice":
      return { type: "choice", options: node.options.map(withoutEmpty) };
    case "repeat": {
      const { body, min, max, isLazy } = node;
      const rest: PatternNode = { type: "repeat", body, min: Math.max(0, min - 1), max: max - 1, isLazy };
      return max === 0 ? never : { type: "sequence", parts: [withoutEmpty(body), rest] };
    }
    case "sequence": {
      const [first, ...rest] = node.parts;
      if (first === undefined) return never;
      if (!mayBeEmpty(first)) return node;
      const others: PatternNode = { type: "sequence", parts: rest };
      const here: PatternNode = { type: "sequence", parts: [withoutEmpty(first), ...rest] };
      const later: PatternNode = { type: "sequence", parts: [onlyEmpty(first), withoutEmpty(others)] };
      return { type: "choice", options: first.type === "repeat" && first.isLazy ? [later, here] : [here, later] };
    }
    default:
      return node satisfies never;
  }
}

/** The empty matches of a pattern. */
function onlyEmpty(node: PatternNode): PatternNode {
  switch (node.type) {
    case "set":
      return never;
    case "edge":
    case "look":
      return node;
    case "group":
      return onlyEmpty(node.body);
    case "choice":
      return { type: "choice", options: node.options.map(onlyEmpty) };
    case "repeat":
      return node.min === 0 ? nothing : onlyEmpty(node.body);
    case "sequence":
      return { type: "sequence", parts: node.parts.map(onlyEmpty) };
    default:
      return node satisfies never;
  }
}

function sourceOf(node: PatternNode): string {
  switch (node.type) {
    case "set":
      return `(?:${node.source})`;
    case "sequence":
      return node.parts.map(sourceOf).join("");
    case "choice":
      return node.options.length === 0 ? "(?!)" : `(?:${node.options.map(sourceOf).join("|")})`;
    case "repeat":
      return `(?:${sourceOf(node.body)}){${node.min},${node.max === Infinity ? "" : node.max}}${node.isLazy ? "?" : ""}`;
    case "group":
      return sourceOf(node.body);
    case "edge":
      return { start: "^", end: "$", word: "\\b", "no-word": "\\B" }[node.edge];
    case "look":
      return `(?${node.isAhead ? "" : "<"}${node.isNegative ? "!" : "="}${sourceOf(node.body)})`;
    default:
      return node satisfies never;
  }
}

type Work = {
  /** Ways in which a search without memory may match at one position. */
  readonly ways: number;
  /** Characters that it tests in all of these ways. */
  readonly tests: number;
};

/** The most work of a search without memory at one position; infinite if it is not bounded. */
function workOf(node: PatternNode): Work {
  switch (node.type) {
    case "set":
    case "edge":
      return { ways: 1, tests: 1 };
    case "sequence": {
      let [ways, tests] = [1, 0];
      for (const part of node.parts) {
        const work = workOf(part);
        tests += ways * work.tests;
        ways *= work.ways;
      }
      return { ways, tests };
    }
    case "choice": {
      const options = node.options.map(workOf);
      const sum = (key: keyof Work): number => options.reduce((total, option) => total + option[key], 0);
      return { ways: sum("ways"), tests: sum("tests") };
    }
    case "group":
      return workOf(node.body);
    case "look":
      return { ways: 1, tests: workOf(node.body).tests };
    case "repeat": {
      const { body, min, max } = node;
      const isInLine = body.type === "set" && !new RegExp(body.source, "iu").test("\n");
      const times = max === Infinity ? (isInLine ? min + lineLength : Infinity) : max;
      const { ways, tests } = workOf(body);
      const all = ways ** times * (times - min + 1);
      return { ways: Math.max(1, all), tests: body.type === "set" ? times : all * tests * Math.max(1, times) };
    }
    default:
      return node satisfies never;
  }
}

function mayBeEmpty(node: PatternNode): boolean {
  switch (node.type) {
    case "set":
      return false;
    case "edge":
    case "look":
      return true;
    case "sequence":
      return node.parts.every(mayBeEmpty);
    case "choice":
      return node.options.some(mayBeEmpty);
    case "group":
      return mayBeEmpty(node.body);
    case "repeat":
      return node.min === 0 || mayBeEmpty(node.body);
    default:
      return node satisfies never;
  }
}

/** Texts of which every match contains one; `null` if none are known. */
function requiredTexts(node: PatternNode): readonly string[] | null {
  switch (node.type) {
    case "set":
      return literalOf(node.source) === null ? null : [literalOf(node.source)!];
    case "choice": {
      const options = node.options.map(requiredTexts);
      return options.includes(null) ? null : options.flatMap((texts) => texts!);
    }
    case "repeat":
      return node.min > 0 ? requiredTexts(node.body) : null;
    case "group":
      return requiredTexts(node.body);
    case "sequence":
      return ofSequence(node.parts);
    default:
      return null;
  }
}

/** The longest run of characters in a sequence, or the texts of its part with the longest ones. */
function ofSequence(parts: readonly PatternNode[]): readonly string[] | null {
  const found: (readonly string[])[] = [];
  let run = "";
  for (const part of parts) {
    const character = part.type === "set" ? literalOf(part.source) : null;
    if (character !== null) {
      run += character;
      continue;
    }
    const texts = requiredTexts(part);
    if (texts !== null) found.push(texts);
    if (run !== "") found.push([run]);
    run = "";
  }
  if (run !== "") found.push([run]);
  const shortest = (texts: readonly string[]): number => Math.min(...texts.map(({ length }) => length));
  return found.toSorted((left, right) => shortest(right) - shortest(left))[0] ?? null;
}

/** The character of a set that has only one; `null` for others. */
function literalOf(source: string): string | null {
  if (source.length === 1) return source;
  const [, code] = /^\\u\{([0-9a-f]+)\}$/.exec(source) ?? [];
  return code === undefined ? null : String.fromCodePoint(parseInt(code, 16));
}
