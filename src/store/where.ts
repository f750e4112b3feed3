// A small language for selecting episodes: fields compared with values, `and`, `or`, `not`,
// parentheses, `in (...)`. It has no functions, no arithmetic and no names except the fields, so an
// expression from any source can only return an answer.
//
//   or:      and { "or" and }
//   and:     not { "and" not }
//   not:     "not" not | "(" or ")" | comparison
//   comparison: field ( "==" | "!=" | "<" | "<=" | ">" | ">=" ) value | field ["not"] "in" "(" value { "," value } ")"

import { ConfigurationError } from "../core/index.ts";
import type { EpisodeSummary } from "./episode-index.ts";
import { suggestion } from "../lib/nearest.ts";

type WhereValue = number | string | null;
export type WhereFields = Readonly<Record<WhereFieldName, WhereValue>>;

type FieldKind = { readonly type: "number" | "text"; readonly meaning: string };

/** Names, types and meanings of the fields; the meanings are shown by `--help`. */
export const whereFieldKinds = {
  reward: { type: "number", meaning: "reward of the episode" },
  outcome: { type: "text", meaning: '"completed" or "truncated"' },
  stop_reason: { type: "text", meaning: 'why it ended: "tool_ended", "max_turns", ...' },
  environment: { type: "text", meaning: "name of the environment" },
  split: { type: "text", meaning: "split of the task" },
  task_id: { type: "text", meaning: "id of the task" },
  task_index: { type: "number", meaning: "number of the task in its split" },
  group_id: { type: "text", meaning: "id of the group" },
  group_mean: { type: "number", meaning: "mean reward of the group" },
  decision: { type: "text", meaning: 'decision on the group: "kept", "dropped", "undecided"' },
  episode_id: { type: "text", meaning: "id of the episode" },
  sample_index: { type: "number", meaning: "index of the episode in its group" },
  run: { type: "text", meaning: "name of the run; null if only one run is exported" },
  turns: { type: "number", meaning: "number of actions of the agent" },
  tokens: { type: "number", meaning: "length of the longest sample" },
  sampled_tokens: { type: "number", meaning: "number of tokens that the policy sampled" },
  samples: { type: "number", meaning: "number of trained branches" },
  problems: { type: "number", meaning: "number of format errors in its actions" },
  history_policy: { type: "text", meaning: '"append-only", "keep-reasoning", "branch", "no-tokens"' },
} as const satisfies Readonly<Record<string, FieldKind>>;

export type WhereFieldName = keyof typeof whereFieldKinds;

/** Facts about an episode that come from its group and its run. */
export type WhereGroup = {
  readonly decision: string;
  readonly groupMean: number | null;
  /** Name of the run when there are several: ids of groups are unique only within a run. */
  readonly run: string | null;
};

/** The fields of an episode, derived only from its line in the index. */
export function whereFields(
  summary: Omit<EpisodeSummary, "number" | "place">,
  { decision, groupMean, run }: WhereGroup,
): WhereFields {
  const { task, groupId } = summary;
  return {
    reward: summary.reward,
    outcome: summary.outcome,
    stop_reason: summary.stopReason,
    environment: task.environment,
    split: task.split,
    task_id: task.id,
    task_index: task.index,
    group_id: run === null ? groupId : `${run}/${groupId}`,
    group_mean: groupMean,
    decision,
    episode_id: summary.id,
    sample_index: summary.sampleIndex,
    run,
    // An agent behind an API has decisions instead of turns.
    turns: summary.decisions,
    tokens: summary.longestSample,
    sampled_tokens: summary.sampledTokens,
    samples: summary.samples,
    problems: Object.values(summary.problems).reduce((sum, count) => sum + count, 0),
    history_policy: summary.historyPolicy,
  };
}

type WhereToken = {
  readonly type: "name" | "number" | "text" | "operator" | "end";
  /** Text of the token as written; a quoted string without its quotes and escapes. */
  readonly text: string;
  /** Position of its first character. */
  readonly at: number;
};

const tokenPattern =
  /\s*(?:(?<name>[A-Za-z_]\w*)|(?<number>-?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)|(?<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?<operator>==|!=|<=|>=|<|>|\(|\)|,))/y;

/** Tokens in order, followed by an "end". Throws a `WhereError`. */
function tokenize(expression: string): WhereToken[] {
  const tokens: WhereToken[] = [];
  let at = 0;
  for (;;) {
    tokenPattern.lastIndex = at;
    const groups = tokenPattern.exec(expression)?.groups;
    if (groups === undefined) break;
    at = tokenPattern.lastIndex;
    for (const type of ["name", "number", "text", "operator"] as const) {
      const text = groups[type];
      if (text === undefined) continue;
      const unquoted = type === "text" ? text.slice(1, -1).replaceAll(/\\(.)/gs, "$1") : text;
      tokens.push({ type, text: unquoted, at: at - text.length });
    }
  }
  const rest = expression.slice(at).trimStart();
  if (rest === "") return [...tokens, { type: "end", text: "", at: expression.length }];
  const advice = strayAdvice.find(([start]) => rest.startsWith(start))?.[1];
  const shown = `"${String.fromCodePoint(rest.codePointAt(0) ?? 0)}"`;
  throw new WhereError(expression, expression.length - rest.length, advice ?? `${shown} is not expected here`);
}

const strayAdvice = [
  ["=", 'a comparison is written "=="'],
  ["&", '"and" is written as a word'],
  ["|", '"or" is written as a word'],
  ["!", '"not" is written as a word'],
  ['"', "the text is not closed"],
  ["'", "the text is not closed"],
] as const;

/** An invalid expression; the message marks the position below it. */
export class WhereError extends ConfigurationError {
  constructor(expression: string, at: number, reason: string) {
    const shown = expression.replaceAll(/\s/g, " ");
    super(`Cannot read the expression at character ${at + 1}: ${reason}.\n  ${shown}\n  ${" ".repeat(at)}^`);
    this.name = "WhereError";
  }
}

export type Where = (fields: WhereFields) => boolean;

const maxDepth = 100;

/** Comparisons by order. */
const orders: Readonly<Record<string, (found: number | string, value: number | string) => boolean>> = {
  "<": (found, value) => found < value,
  "<=": (found, value) => found <= value,
  ">": (found, value) => found > value,
  ">=": (found, value) => found >= value,
};

/**
 * Parses an expression. `null` equals only `null`, and is neither greater nor smaller than any
 * value. Throws a `WhereError` that shows the position.
 */
export function parseWhere(expression: string): Where {
  const tokens = tokenize(expression);
  let next = 0;
  let depth = 0;
  // The end token is never consumed.
  const current = (): WhereToken => tokens[next]!;
  const misread = ({ at }: WhereToken, reason: string): WhereError => new WhereError(expression, at, reason);
  /** Consumes the token if it has this text; quoted strings never match. */
  const take = (text: string): boolean => {
    const token = current();
    const isIt = token.text === text && (token.type === "name" || token.type === "operator");
    if (isIt) next++;
    return isIt;
  };
  const need = (text: string): void => {
    if (!take(text)) throw misread(current(), `expected "${text}" here`);
  };

  const where = or();
  const last = current();
  if (last.type !== "end") throw misread(last, `expected "and" or "or" before "${last.text}"`);
  return where;

  function or(): Where {
    const parts = [and()];
    while (take("or")) parts.push(and());
    return parts.length === 1 ? parts[0]! : (fields) => parts.some((part) => part(fields));
  }

  function and(): Where {
    const parts = [not()];
    while (take("and")) parts.push(not());
    return parts.length === 1 ? parts[0]! : (fields) => parts.every((part) => part(fields));
  }

  function not(): Where {
    if (++depth > maxDepth) throw misread(current(), `it is nested deeper than ${maxDepth} levels`);
    let inner: Where;
    if (take("not")) {
      const negated = not();
      inner = (fields) => !negated(fields);
    } else if (take("(")) {
      inner = or();
      need(")");
    } else inner = comparison();
    depth--;
    return inner;
  }

  function comparison(): Where {
    const name = field();
    const isNegated = take("not");
    if (isNegated || current().text === "in") {
      need("in");
      need("(");
      const values = [value(name)];
      while (take(",")) values.push(value(name));
      need(")");
      return (fields) => values.includes(fields[name]) !== isNegated;
    }
    const operator = current();
    const isEquality = operator.text === "==" || operator.text === "!=";
    const holds = orders[operator.text];
    if (operator.type !== "operator" || (!isEquality && holds === undefined))
      throw misread(operator, `expected a comparison (==, !=, <, <=, >, >=, in) after "${name}"`);
    next++;
    const token = current();
    const compared = value(name);
    if (holds === undefined) return (fields) => (fields[name] === compared) === (operator.text === "==");
    if (compared === null) throw misread(token, `null has no order; compare it only with == or !=`);
    return (fields) => {
      const found = fields[name];
      return found !== null && holds(found, compared);
    };
  }

  function field(): WhereFieldName {
    const token = current();
    if (token.type === "end") throw misread(token, "expected a comparison here");
    if (token.type !== "name") throw misread(token, `expected a field here, not "${token.text}"`);
    if (!isField(token.text)) {
      const names = Object.keys(whereFieldKinds);
      const near = suggestion(token.text, names);
      const list = `the fields are ${names.join(", ")}`;
      throw misread(token, `there is no field "${token.text}"; ${near === null ? list : `${list}; ${near}`}`);
    }
    next++;
    return token.text;
  }

  function value(name: WhereFieldName): WhereValue {
    const token = current();
    const { type } = whereFieldKinds[name];
    if (take("null")) return null;
    if (token.type === "name") throw misread(token, `expected a value; put strings in quotes: "${token.text}"`);
    if (token.type !== "number" && token.type !== "text") throw misread(token, "expected a value here");
    if (token.type !== type) {
      const expected = type === "number" ? "a number" : "a text in quotes";
      throw misread(token, `"${name}" is compared with ${expected}`);
    }
    next++;
    return type === "number" ? Number(token.text) : token.text;
  }
}

function isField(name: string): name is WhereFieldName {
  return Object.hasOwn(whereFieldKinds, name);
}
