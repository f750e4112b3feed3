// Tests whether a text matches a regular expression from outside. JavaScript's own test may take
// time exponential in the text. This one follows all paths through the pattern at once, so it takes
// time linear in the text, and gives the same answer at every run.

import { parsePattern, type PatternNode, UnreadPatternError } from "./parse-pattern.ts";

export type LinearPattern = {
  /**
   * True for a match anywhere in the text, like `RegExp.test`; `null` if the test would take too
   * long. `budget`: limit of several tests together. Default: one of this test. Never throws.
   */
  readonly test: (text: string, budget?: TestBudget) => boolean | null;
};

/** Number of states that tests may still visit; they count it down. */
export type TestBudget = { visits: number };

/**
 * Maximum number of states of a pattern and its lookarounds; the body of a repetition counts once
 * per possible repetition.
 */
const mostStates = 4000;
/** Limit of the states that one test visits, about 50 ms. */
export const testBudget = (): TestBudget => ({ visits: 2_000_000 });

/** Ways of a split are in the order in which a search without memory would try them. */
export type State =
  | { readonly type: "set"; readonly has: (character: string) => boolean; readonly next: number }
  | { readonly type: "split"; readonly ways: readonly number[] }
  | { readonly type: "check"; readonly node: CheckNode; readonly next: number }
  | { readonly type: "mark"; readonly mark: GroupMark; readonly next: number }
  | { readonly type: "accept" };

/** The boundary of a named group; a search in reverse passes the end first. */
export type GroupMark = { readonly name: string; readonly isStart: boolean };
export type CheckNode = Extract<PatternNode, { readonly type: "edge" | "look" }>;
export type Program = { readonly states: readonly State[]; readonly start: number };
export type Look = {
  readonly node: CheckNode;
  readonly program: Program;
  readonly isAhead: boolean;
  readonly isNegative: boolean;
};

/**
 * Compiles a JavaScript pattern with the flags "" or "u". Throws a `SyntaxError` if `new
 * RegExp(source, flags)` does, and an `UnreadPatternError` for a pattern that cannot be tested in
 * linear time: one with backreferences, or a very large one.
 */
export function linearPattern(source: string, flags: "" | "u"): LinearPattern {
  const native = new RegExp(source, flags);
  const node = parsePattern(source, flags);
  if (isPlain(node)) return { test: (text) => native.test(text) };
  const { program, looks } = compilePattern(node, { flags, reversesLookaheads: true });
  return {
    test: (text, budget = testBudget()) =>
      // Every character costs at least one visit.
      text.length > budget.visits * 2
        ? null
        : matches(program, looks, { characters: flags === "u" ? Array.from(text) : text.split(""), budget }),
  };
}

/**
 * True for a pattern without ambiguity: at most one repetition of single characters, and only after
 * a start anchor.
 */
function isPlain(node: PatternNode): boolean {
  const parts = node.type === "sequence" ? node.parts : [node];
  const isAnchored = parts[0]?.type === "edge" && parts[0].edge === "start";
  const repeats = parts.filter(({ type }) => type === "repeat");
  const isFlat = parts.every(
    (part) => part.type === "set" || part.type === "edge" || (part.type === "repeat" && part.body.type === "set"),
  );
  return isFlat && repeats.length <= (isAnchored ? 1 : 0);
}

/**
 * The program of a pattern, and its lookarounds, inner ones first. `reversesLookaheads`: their
 * programs run from the end of the text to its start, else those of lookbehinds do. Throws an
 * `UnreadPatternError` for a very large pattern.
 */
export function compilePattern(
  node: PatternNode,
  { flags, reversesLookaheads }: { readonly flags: "" | "u" | "iu"; readonly reversesLookaheads: boolean },
): { readonly program: Program; readonly looks: readonly Look[] } {
  const looks: Look[] = [];
  const compiling = { flags, looks, budget: { states: mostStates }, reversesLookaheads, isReversed: false };
  return { program: compile(node, compiling), looks };
}

type Compiling = {
  readonly flags: string;
  /** Filled during compilation; inner lookarounds precede outer ones. */
  readonly looks: Look[];
  readonly budget: { states: number };
  readonly reversesLookaheads: boolean;
  /** True if the program runs from the end of the text. */
  readonly isReversed: boolean;
};

function compile(node: PatternNode, compiling: Compiling): Program {
  const { flags, looks, budget, reversesLookaheads, isReversed } = compiling;
  const states: State[] = [];
  const spend = (): void => {
    if (budget.states-- <= 0) throw new UnreadPatternError("it is too large");
  };
  const add = (state: State): number => {
    spend();
    return states.push(state) - 1;
  };
  /** Builds the states of `part` and returns the first one; `next` is the state after them. */
  const build = (part: PatternNode, next: number): number => {
    switch (part.type) {
      case "set":
        return add({ type: "set", has: membership(part.source, flags), next });
      case "sequence":
        return (isReversed ? part.parts : part.parts.toReversed()).reduce((after, one) => build(one, after), next);
      case "choice":
        return add({ type: "split", ways: part.options.map((option) => build(option, next)) });
      case "repeat":
        return buildRepeat(part, next);
      case "look": {
        const { isAhead, isNegative, body } = part;
        // A repeated part is built several times, but its lookaround is stored only once.
        if (!looks.some(({ node: known }) => known === part)) {
          looks.push({
            node: part,
            program: compile(body, { ...compiling, isReversed: isAhead === reversesLookaheads }),
            isAhead,
            isNegative,
          });
        }
        return add({ type: "check", node: part, next });
      }
      case "edge":
        return add({ type: "check", node: part, next });
      case "group": {
        const { name, body } = part;
        const last = add({ type: "mark", mark: { name, isStart: isReversed }, next });
        return add({ type: "mark", mark: { name, isStart: !isReversed }, next: build(body, last) });
      }
      default:
        return part satisfies never;
    }
  };
  const buildRepeat = (repeat: Extract<PatternNode, { readonly type: "repeat" }>, next: number): number => {
    const { body, min, max, isLazy } = repeat;
    const inOrder = (more: number): number[] => (isLazy ? [next, more] : [more, next]);
    let after = next;
    if (max === Infinity) {
      const ways: number[] = [];
      after = add({ type: "split", ways });
      ways.push(...inOrder(build(body, after)));
    } else {
      for (let left = max - min; left > 0; left--) {
        after = add({ type: "split", ways: inOrder(build(body, after)) });
      }
    }
    for (let left = min; left > 0; left--) {
      // Counts even for a body without states.
      spend();
      after = build(body, after);
    }
    return after;
  };
  const accept = add({ type: "accept" });
  return { states, start: build(node, accept) };
}

/**
 * A test for membership of a character in a set in pattern notation. It caches results, because the
 * same few characters are tested again and again.
 */
function membership(source: string, flags: string): (character: string) => boolean {
  if (source.length === 1 && source !== "." && !flags.includes("i")) return (character) => character === source;
  const pattern = new RegExp(`^(?:${source})$`, flags);
  const known = new Map<string, boolean>();
  return (character) => {
    let isIn = known.get(character);
    if (isIn === undefined) {
      isIn = pattern.test(character);
      if (known.size < 1000) known.set(character, isIn);
    }
    return isIn;
  };
}

/** `null` if the test would take too long. */
function matches(
  program: Program,
  looks: readonly Look[],
  { characters, budget }: { readonly characters: readonly string[]; readonly budget: TestBudget },
): boolean | null {
  const length = characters.length;
  const found = new Map<CheckNode, Uint8Array>();
  const isWordAt = (at: number): boolean => at >= 0 && at < length && /^\w$/.test(characters[at]!);
  const holds = (node: CheckNode, at: number): boolean => {
    if (node.type === "look") return (found.get(node)![at] === 1) !== node.isNegative;
    switch (node.edge) {
      case "start":
        return at === 0;
      case "end":
        return at === length;
      case "word":
        return isWordAt(at - 1) !== isWordAt(at);
      case "no-word":
        return isWordAt(at - 1) === isWordAt(at);
      default:
        return node.edge satisfies never;
    }
  };
  for (const { node, program: looked, isAhead } of looks) {
    const places = new Uint8Array(length + 1);
    found.set(node, places);
    const isDone = follow(looked, characters, { isBackward: isAhead, holds, budget, onMatch: (at) => ((places[at] = 1), false) }); // prettier-ignore
    if (isDone === null) return null;
  }
  return follow(program, characters, { isBackward: false, holds, budget, onMatch: () => true });
}

type Following = {
  readonly isBackward: boolean;
  readonly holds: (node: CheckNode, at: number) => boolean;
  readonly budget: TestBudget;
  /** Called with each position at which a match ends; returning true ends the search. */
  readonly onMatch: (at: number) => boolean;
};

/**
 * Follows all paths through a program at once, starting at every position of the text. True if
 * `onMatch` ended the search; `null` if the budget is spent.
 */
function follow(
  { states, start }: Program,
  characters: readonly string[],
  { isBackward, holds, budget, onMatch }: Following,
): boolean | null {
  const length = characters.length;
  const seenAt = new Int32Array(states.length).fill(-1);
  let current: number[] = [];
  for (let step = 0; step <= length; step++) {
    const at = isBackward ? length - step : step;
    const waiting = [...current, start];
    const reading: number[] = [];
    while (waiting.length > 0) {
      const index = waiting.pop()!;
      if (seenAt[index] === step) continue;
      seenAt[index] = step;
      if (--budget.visits < 0) return null;
      const state = states[index]!;
      if (state.type === "accept") {
        if (onMatch(at)) return true;
      } else if (state.type === "set") {
        reading.push(index);
      } else if (state.type === "split") {
        for (const way of state.ways) waiting.push(way);
      } else if (state.type === "mark") {
        waiting.push(state.next);
      } else if (holds(state.node, at)) {
        waiting.push(state.next);
      }
    }
    const character = characters[isBackward ? at - 1 : at];
    if (character === undefined) break;
    current = [];
    for (const index of reading) {
      const state = states[index]!;
      if (state.type === "set" && state.has(character)) current.push(state.next);
    }
  }
  return false;
}
