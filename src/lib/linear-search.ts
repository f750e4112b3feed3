// Finds matches of a regular expression from outside, with their named groups. It backtracks like
// JavaScript's own search, so it finds the same match, but tries no state of the pattern twice at
// one position of a text: its time grows linearly with the text, where JavaScript's may grow
// exponentially.

import { type CheckNode, compilePattern, type GroupMark, type Look, type Program } from "./linear-pattern.ts";
import type { PatternNode } from "./parse-pattern.ts";

/** Offsets in UTF-16 units. */
export type LinearMatch = {
  readonly start: number;
  readonly end: number;
  /** Text of the named groups that took part in the match. */
  readonly captures: ReadonlyMap<string, string>;
};

/** Thrown for a text whose search would take too long. */
export class SlowSearchError extends Error {
  override readonly name = "SlowSearchError";
}

/** Maximum number of states visited in one text: a constant, and so many per UTF-16 unit. */
const mostVisits = { constant: 200_000, perUnit: 10 };

/** Number of states that searches may still visit, in all texts together; they count it down. */
export type SearchBudget = { steps: number };

/** "whole": the path matches. "cut": the end of the text truncates it, so more text may complete it. */
type Goal = "whole" | "cut";

/** A state at a position, on a path. */
type Step = {
  readonly state: number;
  readonly at: number;
  readonly marks: Marks | null;
  readonly parent: Step | null;
};
/** Boundaries of groups that a path passed, the last one first. */
type Marks = { readonly mark: GroupMark; readonly at: number; readonly before: Marks | null };

/** The search for one pattern. Keeps what it learned of the last text, so one text is searched in linear time as a whole. */
export class LinearSearch {
  readonly #program: Program;
  readonly #looks: ReadonlyMap<CheckNode, Look>;
  /** First of the numbers that identify the states of a program. */
  readonly #base = new Map<Program, number>();
  readonly #stateCount: number;
  /** Matches the characters with which a match may begin; `null` if a match may be empty. */
  readonly #first: RegExp | null;
  /** The same, at one position. */
  readonly #firstHere: RegExp | null;
  /** Maximum number of UTF-16 units of a match. */
  readonly #longest: number;
  readonly #budget: SearchBudget | null;
  #text = "";
  #visits = 0;
  /** States, each at a position of the text, from which no path reaches the goal. */
  readonly #failed: Record<Goal, Places | null> = { whole: null, cut: null };
  /** States of lookarounds, each at a position of the text, from which a path reaches the end. */
  #won: Places | null = null;
  /** Results of lookarounds, by the state and position of their start. */
  readonly #held = new Map<number, boolean>();
  readonly #looksBehind: boolean;

  /**
   * `node`: a pattern with the flag "u", and "i" if it ignores case. `budget`: limit of all texts
   * together, which may be shared with other searches. Default: a limit for each text that grows
   * with its length. Throws an `UnreadPatternError` for a very large pattern.
   */
  constructor(
    node: PatternNode,
    {
      ignoresCase = false,
      budget = null,
    }: { readonly ignoresCase?: boolean; readonly budget?: SearchBudget | null } = {},
  ) {
    this.#budget = budget;
    const flags = ignoresCase ? "iu" : "u";
    const { program, looks } = compilePattern(node, { flags, reversesLookaheads: false });
    this.#program = program;
    this.#looks = new Map(looks.map((look) => [look.node, look]));
    let count = 0;
    for (const one of [program, ...looks.map((look) => look.program)]) {
      this.#base.set(one, count);
      count += one.states.length;
    }
    this.#stateCount = count;
    this.#looksBehind = looks.some(({ isAhead }) => !isAhead);
    const { sources, mayBeEmpty } = firstCharacters(node);
    const first = sources.length === 0 ? "[]" : sources.join("|");
    this.#first = mayBeEmpty ? null : new RegExp(first, `g${flags}`);
    this.#firstHere = mayBeEmpty ? null : new RegExp(first, `y${flags}`);
    this.#longest = longestMatch(node);
  }

  /** The leftmost match that begins at `from` or later. Throws a `SlowSearchError`. */
  find(text: string, from: number): LinearMatch | null {
    for (const start of this.#starts(text, from)) {
      const found = this.#matchFrom(text, start);
      if (found !== null) return found;
    }
    return null;
  }

  /** The match that begins at `start`. Throws a `SlowSearchError`. */
  matchAt(text: string, start: number): LinearMatch | null {
    if (this.#firstHere !== null) {
      this.#firstHere.lastIndex = start;
      if (!this.#firstHere.test(text)) return null;
    }
    return this.#matchFrom(text, start);
  }

  #matchFrom(text: string, start: number): LinearMatch | null {
    const last = this.#run(this.#program, { text, start, goal: "whole", isReversed: false });
    return last === null ? null : { start, end: last.at, captures: capturesOf(text, last.marks) };
  }

  /**
   * The first position, `from` or later, from which the text up to its end is the beginning of a
   * match that more text could complete; `null` if there is none. Throws a `SlowSearchError`.
   */
  findCut(text: string, from: number): number | null {
    for (const start of this.#starts(text, Math.max(from, text.length - this.#longest))) {
      if (this.#run(this.#program, { text, start, goal: "cut", isReversed: false }) !== null) return start;
    }
    return null;
  }

  *#starts(text: string, from: number): Generator<number> {
    if (this.#first === null) {
      for (let start = from; start <= text.length; start += Math.max(1, characterAt(text, start).length)) yield start;
      return;
    }
    for (let start = from; ; start += characterAt(text, start).length) {
      this.#first.lastIndex = start;
      const found = this.#first.exec(text);
      if (found === null) return;
      start = found.index;
      yield start;
    }
  }

  /** The last step of the first path that reaches the goal; `null` if none does. */
  #run(
    program: Program,
    search: { readonly text: string; readonly start: number; readonly goal: Goal; readonly isReversed: boolean },
  ): Step | null {
    const { text, start, goal, isReversed } = search;
    if (text !== this.#text) {
      this.#text = text;
      this.#visits = 0;
      this.#held.clear();
      this.#failed.whole = null;
      this.#failed.cut = null;
      this.#won = null;
    }
    // A lookaround only holds or not, so its paths need not be found again.
    const won = program === this.#program || goal === "cut" ? null : (this.#won ??= this.#allPlaces());
    const failed = this.#places(goal, start);
    const budget = this.#budget;
    const limit = budget === null ? mostVisits.constant + mostVisits.perUnit * text.length : Infinity;
    const base = this.#base.get(program)!;
    const waiting: Step[] = [{ state: program.start, at: start, marks: null, parent: null }];
    const succeed = (last: Step): Step => {
      let length = 0;
      for (let step: Step | null = last; step !== null; step = step.parent) {
        failed.delete(base + step.state, step.at);
        won?.add(base + step.state, step.at);
        length++;
      }
      // The path of a match is free, however often it is found, unless it visits many states without reading on.
      const units = Math.abs(last.at - start) + 1;
      if (program === this.#program) this.#visits -= Math.min(length, mostVisits.perUnit * units);
      return last;
    };
    for (let step = waiting.pop(); step !== undefined; step = waiting.pop()) {
      const { at, marks } = step;
      if (won?.has(base + step.state, at) === true) return succeed(step);
      // Removed again if a path from here reaches the goal.
      if (!failed.add(base + step.state, at)) continue;
      if (++this.#visits > limit || (budget !== null && --budget.steps < 0)) {
        throw new SlowSearchError("The search would take too long.");
      }
      const state = program.states[step.state]!;
      switch (state.type) {
        case "accept":
          if (goal === "whole") return succeed(step);
          break;
        case "set": {
          const character = isReversed ? characterBefore(text, at) : characterAt(text, at);
          if (character === "") {
            if (goal === "cut") return succeed(step);
          } else if (state.has(character)) {
            const next = isReversed ? at - character.length : at + character.length;
            waiting.push({ state: state.next, at: next, marks, parent: step });
          }
          break;
        }
        case "split":
          for (let way = state.ways.length - 1; way >= 0; way--) {
            waiting.push({ state: state.ways[way]!, at, marks, parent: step });
          }
          break;
        case "mark":
          waiting.push({ state: state.next, at, marks: { mark: state.mark, at, before: marks }, parent: step });
          break;
        case "check":
          if (goal === "cut" && this.#isCutIn(state.node, text, at)) return succeed(step);
          if (this.#holds(state.node, text, at)) waiting.push({ state: state.next, at, marks, parent: step });
          break;
        default:
          state satisfies never;
      }
    }
    return null;
  }

  /** The failed states of the current text, which cover positions from `start` on. */
  #places(goal: Goal, start: number): Places {
    const known = this.#failed[goal];
    if (known !== null && known.first <= start) return known;
    return (this.#failed[goal] = this.#allPlaces(this.#looksBehind ? 0 : start));
  }

  #allPlaces(first = 0): Places {
    return new Places({ first, last: this.#text.length, width: this.#stateCount });
  }

  #holds(node: CheckNode, text: string, at: number): boolean {
    if (node.type === "look") {
      const { program, isAhead, isNegative } = this.#looks.get(node)!;
      const key = at * this.#stateCount + this.#base.get(program)!;
      const known = this.#held.get(key);
      if (known !== undefined) return known;
      const search = { text, start: at, goal: "whole", isReversed: !isAhead } as const;
      const holds = (this.#run(program, search) !== null) !== isNegative;
      this.#held.set(key, holds);
      return holds;
    }
    switch (node.edge) {
      case "start":
        return at === 0;
      case "end":
        return at === text.length;
      case "word":
        return isWord(text[at - 1]) !== isWord(text[at]);
      case "no-word":
        return isWord(text[at - 1]) === isWord(text[at]);
      default:
        return node.edge satisfies never;
    }
  }

  /** True if more text may satisfy a lookahead. */
  #isCutIn(node: CheckNode, text: string, at: number): boolean {
    if (node.type !== "look" || !node.isAhead || node.isNegative) return false;
    const { program } = this.#looks.get(node)!;
    return this.#run(program, { text, start: at, goal: "cut", isReversed: false }) !== null;
  }
}

/** Maximum number of states at positions that are kept, one bit each. */
const mostPlaces = 2 ** 28;

/** A set of states at positions from `first` to `last`; `width`: number of states. */
class Places {
  readonly first: number;
  readonly #width: number;
  readonly #bits: Uint32Array;

  constructor({ first, last, width }: { readonly first: number; readonly last: number; readonly width: number }) {
    const count = (last - first + 1) * width;
    if (count > mostPlaces) throw new SlowSearchError("The text is too long for the pattern.");
    this.first = first;
    this.#width = width;
    this.#bits = new Uint32Array(Math.ceil(count / 32));
  }

  /** False if the state was in the set. */
  add(state: number, at: number): boolean {
    const place = (at - this.first) * this.#width + state;
    const bit = 1 << (place & 31);
    const word = this.#bits[place >>> 5]!;
    if ((word & bit) !== 0) return false;
    this.#bits[place >>> 5] = word | bit;
    return true;
  }

  has(state: number, at: number): boolean {
    const place = (at - this.first) * this.#width + state;
    return (this.#bits[place >>> 5]! & (1 << (place & 31))) !== 0;
  }

  delete(state: number, at: number): void {
    const place = (at - this.first) * this.#width + state;
    this.#bits[place >>> 5]! &= ~(1 << (place & 31));
  }
}

const isWord = (unit: string | undefined): boolean => unit !== undefined && /\w/.test(unit);

/** The code point at an offset; "" at the end. */
function characterAt(text: string, at: number): string {
  const unit = text[at] ?? "";
  return isHighSurrogate(unit) && isLowSurrogate(text[at + 1] ?? "") ? text.slice(at, at + 2) : unit;
}

/** The code point before an offset; "" at the start. */
function characterBefore(text: string, at: number): string {
  const unit = text[at - 1] ?? "";
  return isLowSurrogate(unit) && isHighSurrogate(text[at - 2] ?? "") ? text.slice(at - 2, at) : unit;
}

const isHighSurrogate = (unit: string): boolean => unit >= "\ud800" && unit <= "\udbff";
const isLowSurrogate = (unit: string): boolean => unit >= "\udc00" && unit <= "\udfff";

function capturesOf(text: string, marks: Marks | null): ReadonlyMap<string, string> {
  const captures = new Map<string, string>();
  const ends = new Map<string, number>();
  // A group that is passed several times has the text of its last passage.
  for (let passed = marks; passed !== null; passed = passed.before) {
    const { name, isStart } = passed.mark;
    if (captures.has(name)) continue;
    if (!isStart) ends.set(name, passed.at);
    else if (ends.has(name)) captures.set(name, text.slice(passed.at, ends.get(name)));
  }
  return captures;
}

type First = { readonly sources: readonly string[]; readonly mayBeEmpty: boolean };

/** The sets to which the first character of a match may belong. */
function firstCharacters(node: PatternNode): First {
  switch (node.type) {
    case "set":
      return { sources: [node.source], mayBeEmpty: false };
    case "edge":
    case "look":
      return { sources: [], mayBeEmpty: true };
    case "group":
      return firstCharacters(node.body);
    case "choice": {
      const options = node.options.map(firstCharacters);
      return {
        sources: [...new Set(options.flatMap(({ sources }) => sources))],
        mayBeEmpty: options.some(({ mayBeEmpty }) => mayBeEmpty),
      };
    }
    case "repeat": {
      const body = firstCharacters(node.body);
      return { ...body, mayBeEmpty: body.mayBeEmpty || node.min === 0 };
    }
    case "sequence": {
      const sources: string[] = [];
      for (const part of node.parts) {
        const first = firstCharacters(part);
        sources.push(...first.sources);
        if (!first.mayBeEmpty) return { sources, mayBeEmpty: false };
      }
      return { sources, mayBeEmpty: true };
    }
    default:
      return node satisfies never;
  }
}

/** Maximum number of UTF-16 units of a match, including its lookaheads. */
function longestMatch(node: PatternNode): number {
  switch (node.type) {
    case "set":
      return 2;
    case "edge":
      return 0;
    case "look":
    case "group":
      return longestMatch(node.body);
    case "choice":
      return Math.max(...node.options.map(longestMatch));
    case "repeat": {
      const body = longestMatch(node.body);
      return body === 0 ? 0 : body * node.max;
    }
    case "sequence":
      return node.parts.reduce((sum, part) => sum + longestMatch(part), 0);
    default:
      return node satisfies never;
  }
}
