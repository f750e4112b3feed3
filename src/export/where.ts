// A tiny language to choose episodes: fields compared with values, `and`, `or`, `not`, parentheses, `in (...)`. It has no
// functions, no arithmetic and no names but the fields, so an expression from anywhere can do nothing but answer.
//
//   or:      and { "or" and }
//   and:     not { "and" not }
//   not:     "not" not | "(" or ")" | comparison
//   comparison: field ( "==" | "!=" | "<" | "<=" | ">" | ">=" ) value | field ["not"] "in" "(" value { "," value } ")"

import { ConfigurationError, type Sample } from "../core/index.ts";
import { type ExportOrigin, withRun } from "./samples.ts";

type WhereValue = number | string | null;
export type WhereFields = Readonly<Record<WhereFieldName, WhereValue>>;

type FieldKind = { readonly type: "number" | "text"; readonly meaning: string };

/** Names, types and meanings; the meanings are shown by `--help`. */
export const whereFieldKinds = {
  reward: { type: "number", meaning: "of the episode" },
  outcome: { type: "text", meaning: '"completed" or "truncated"' },
  stop_reason: { type: "text", meaning: 'why it ended: "tool_ended", "max_turns", ...' },
  environment: { type: "text", meaning: "its name" },
  split: { type: "text", meaning: "of the task" },
  task_id: { type: "text", meaning: "of the task" },
  task_index: { type: "number", meaning: "number of the task in its split" },
  group_id: { type: "text", meaning: "of the group" },
  group_mean: { type: "number", meaning: "mean reward of the group" },
  decision: { type: "text", meaning: 'what became of the group: "kept", "dropped", "undecided"' },
  episode_id: { type: "text", meaning: "of the episode" },
  sample_index: { type: "number", meaning: "place in the group" },
  run: { type: "text", meaning: "name of the run; null when one run is exported" },
  turns: { type: "number", meaning: "actions of the agent" },
  tokens: { type: "number", meaning: "length of the longest sample" },
  sampled_tokens: { type: "number", meaning: "what the policy sampled" },
  samples: { type: "number", meaning: "branches that are trained" },
  problems: { type: "number", meaning: "format errors of its actions" },
  history_policy: { type: "text", meaning: '"append-only", "keep-reasoning", "branch", "no-tokens"' },
} as const satisfies Readonly<Record<string, FieldKind>>;

export type WhereFieldName = keyof typeof whereFieldKinds;

export function whereFields(
  { episode, run, groupMean }: ExportOrigin,
  group: { readonly decision: string; readonly samples: readonly Sample[] },
): WhereFields {
  const { task, trajectory } = episode;
  return {
    reward: episode.reward,
    outcome: episode.outcome,
    stop_reason: episode.stopReason,
    environment: task.environment,
    split: task.split,
    task_id: task.id,
    task_index: task.index,
    group_id: withRun(run, episode.groupId),
    group_mean: groupMean,
    decision: group.decision,
    episode_id: episode.id,
    sample_index: episode.sampleIndex,
    run,
    // Of an agent behind an API there are decisions and no turns.
    turns: episode.events.reduce((count, { type }) => (type === "decision" ? count + 1 : count), 0),
    tokens: group.samples.reduce((longest, { tokens }) => Math.max(longest, tokens.length), 0),
    sampled_tokens: trajectory.turns.reduce((sum, turn) => sum + turn.sampledTokens.length, 0),
    samples: group.samples.length,
    problems: episode.problems.length,
    history_policy: episode.historyPolicy,
  };
}

type WhereToken = {
  readonly type: "name" | "number" | "text" | "operator" | "end";
  /** As written; a text without its quotes and escapes. */
  readonly text: string;
  /** Place of its first character. */
  readonly at: number;
};

const tokenPattern =
  /\s*(?:(?<name>[A-Za-z_]\w*)|(?<number>-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?<operator>==|!=|<=|>=|<|>|\(|\)|,))/y;

/** The tokens in order, an "end" behind them. Throws a `WhereError`. */
function tokenize(expression: string): WhereToken[] {
  const tokens: WhereToken[] = [];
  let at = 0;
  for (;;) {
    tokenPattern.lastIndex = at;
    const groups = tokenPattern.exec(expression)?.groups;
    if (groups === undefined) break;
    const end = tokenPattern.lastIndex;
    for (const type of ["name", "number", "text", "operator"] as const) {
      const text = groups[type];
      if (text === undefined) continue;
      tokens.push({ type, text: type === "text" ? unquoted(text) : text, at: end - text.length });
    }
    at = end;
  }
  const rest = expression.slice(at).trimStart();
  const place = expression.length - rest.length;
  if (rest === "") return [...tokens, { type: "end", text: "", at: expression.length }];
  throw new WhereError(expression, place, strayAdvice(rest));
}

function unquoted(text: string): string {
  return text.slice(1, -1).replaceAll(/\\(.)/gs, "$1");
}

function strayAdvice(rest: string): string {
  if (rest.startsWith("=")) return 'a comparison is written "=="';
  if (rest.startsWith("&")) return '"and" is written as a word';
  if (rest.startsWith("|")) return '"or" is written as a word';
  if (rest.startsWith("!")) return '"not" is written as a word';
  if (rest.startsWith('"') || rest.startsWith("'")) return "the text is not closed";
  return `"${String.fromCodePoint(rest.codePointAt(0) ?? 0)}" means nothing here`;
}

/** An expression that cannot be read; the message shows the place below it. */
export class WhereError extends ConfigurationError {
  constructor(expression: string, at: number, reason: string) {
    const shown = expression.replaceAll(/\s/g, " ");
    super(`Cannot read the expression at character ${at + 1}: ${reason}.\n  ${shown}\n  ${" ".repeat(at)}^`);
    this.name = "WhereError";
  }
}

export type Where = (fields: WhereFields) => boolean;

const maxDepth = 100;

const comparisons: Readonly<Record<string, (order: number) => boolean>> = {
  "==": (order) => order === 0,
  "!=": (order) => order !== 0,
  "<": (order) => order < 0,
  "<=": (order) => order <= 0,
  ">": (order) => order > 0,
  ">=": (order) => order >= 0,
};

/**
 * Reads an expression. `null` equals only `null` and is neither greater nor smaller than anything. Throws a `WhereError` that
 * shows the place.
 */
export function parseWhere(expression: string): Where {
  const reader = new WhereReader(expression);
  return reader.read();
}

class WhereReader {
  readonly #expression: string;
  readonly #tokens: readonly WhereToken[];
  #next = 0;
  #depth = 0;

  constructor(expression: string) {
    this.#expression = expression;
    this.#tokens = tokenize(expression);
  }

  read(): Where {
    const where = this.#or();
    const token = this.#token;
    if (token.type !== "end") throw this.#misread(token, `"and" or "or" is needed before "${token.text}"`);
    return where;
  }

  #or(): Where {
    const parts = [this.#and()];
    while (this.#take("or")) parts.push(this.#and());
    return parts.length === 1 ? parts[0]! : (fields) => parts.some((part) => part(fields));
  }

  #and(): Where {
    const parts = [this.#not()];
    while (this.#take("and")) parts.push(this.#not());
    return parts.length === 1 ? parts[0]! : (fields) => parts.every((part) => part(fields));
  }

  #not(): Where {
    const token = this.#token;
    if (++this.#depth > maxDepth) throw this.#misread(token, `it is nested deeper than ${maxDepth} levels`);
    try {
      if (this.#take("not")) {
        const inner = this.#not();
        return (fields) => !inner(fields);
      }
      if (!this.#take("(")) return this.#comparison();
      const inner = this.#or();
      this.#need(")");
      return inner;
    } finally {
      this.#depth--;
    }
  }

  #comparison(): Where {
    const name = this.#field();
    const isNegated = this.#take("not");
    if (isNegated || this.#token.text === "in") {
      this.#need("in");
      const values = this.#list(name);
      return (fields) => values.some((value) => value === fields[name]) !== isNegated;
    }
    const operator = this.#token;
    const holds = operator.type === "operator" ? comparisons[operator.text] : undefined;
    if (holds === undefined)
      throw this.#misread(operator, `a comparison (==, !=, <, <=, >, >=, in) is needed after "${name}"`);
    this.#next++;
    const valueToken = this.#token;
    const value = this.#value(name);
    if (operator.text === "==") return (fields) => fields[name] === value;
    if (operator.text === "!=") return (fields) => fields[name] !== value;
    if (value === null) throw this.#misread(valueToken, `null has no order; only == and != compare with it`);
    return (fields) => {
      const found = fields[name];
      return found !== null && holds(orderOf(found, value));
    };
  }

  #field(): WhereFieldName {
    const token = this.#token;
    if (token.type === "end") throw this.#misread(token, "a comparison is needed here");
    if (token.type !== "name") throw this.#misread(token, `a field is needed here, not "${token.text}"`);
    if (!isField(token.text)) {
      const names = Object.keys(whereFieldKinds).join(", ");
      throw this.#misread(token, `there is no field "${token.text}"; the fields are ${names}`);
    }
    this.#next++;
    return token.text;
  }

  #list(name: WhereFieldName): WhereValue[] {
    this.#need("(");
    const values = [this.#value(name)];
    while (this.#take(",")) values.push(this.#value(name));
    this.#need(")");
    return values;
  }

  #value(name: WhereFieldName): WhereValue {
    const token = this.#token;
    const { type } = whereFieldKinds[name];
    if (token.type === "name" && token.text === "null") {
      this.#next++;
      return null;
    }
    if (token.type === "name") throw this.#misread(token, `a value is needed; texts stand in quotes: "${token.text}"`);
    if (token.type !== "number" && token.type !== "text") throw this.#misread(token, "a value is needed here");
    if (token.type !== type) {
      const expected = type === "number" ? "a number" : "a text in quotes";
      throw this.#misread(token, `"${name}" is compared with ${expected}`);
    }
    this.#next++;
    return type === "number" ? Number(token.text) : token.text;
  }

  get #token(): WhereToken {
    return this.#tokens[this.#next] ?? { type: "end", text: "", at: this.#expression.length };
  }

  /** Goes past the token when it is this one; a text in quotes never is. */
  #take(text: string): boolean {
    const token = this.#token;
    const isIt = token.text === text && (token.type === "name" || token.type === "operator");
    if (isIt) this.#next++;
    return isIt;
  }

  #need(text: string): void {
    const token = this.#token;
    if (!this.#take(text)) throw this.#misread(token, `"${text}" is needed here`);
  }

  #misread(token: WhereToken, reason: string): WhereError {
    return new WhereError(this.#expression, token.at, reason);
  }
}

function isField(name: string): name is WhereFieldName {
  return Object.hasOwn(whereFieldKinds, name);
}

function orderOf(found: number | string, value: number | string): number {
  return found < value ? -1 : found > value ? 1 : 0;
}
