// A tiny language to choose episodes: fields compared with values, `and`, `or`, `not`, parentheses, `in (...)`. It has no
// functions, no arithmetic and no names but the fields, so an expression from anywhere can do nothing but answer.
//
//   or:      and { "or" and }
//   and:     not { "and" not }
//   not:     "not" not | "(" or ")" | comparison
//   comparison: field ( "==" | "!=" | "<" | "<=" | ">" | ">=" ) value | field ["not"] "in" "(" value { "," value } ")"

import { WhereError } from "./where-error.ts";
import { type WhereFieldName, whereFieldKinds, type WhereFields, type WhereValue } from "./where-fields.ts";
import { type WhereWord, whereWords } from "./where-words.ts";

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
  readonly #words: readonly WhereWord[];
  #next = 0;
  #depth = 0;

  constructor(expression: string) {
    this.#expression = expression;
    this.#words = whereWords(expression);
  }

  read(): Where {
    const where = this.#or();
    const word = this.#word;
    if (word.type !== "end") throw this.#problem(word, `"and" or "or" is needed before "${word.text}"`);
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
    const word = this.#word;
    if (++this.#depth > maxDepth) throw this.#problem(word, `it is nested deeper than ${maxDepth} levels`);
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
    if (isNegated || this.#word.text === "in") {
      this.#need("in");
      const values = this.#list(name);
      return (fields) => values.some((value) => value === fields[name]) !== isNegated;
    }
    const operator = this.#word;
    const holds = operator.type === "operator" ? comparisons[operator.text] : undefined;
    if (holds === undefined)
      throw this.#problem(operator, `a comparison (==, !=, <, <=, >, >=, in) is needed after "${name}"`);
    this.#next++;
    const valueWord = this.#word;
    const value = this.#value(name);
    if (operator.text === "==") return (fields) => fields[name] === value;
    if (operator.text === "!=") return (fields) => fields[name] !== value;
    if (value === null) throw this.#problem(valueWord, `null has no order; only == and != compare with it`);
    return (fields) => {
      const found = fields[name];
      return found !== null && holds(orderOf(found, value));
    };
  }

  #field(): WhereFieldName {
    const word = this.#word;
    if (word.type === "end") throw this.#problem(word, "a comparison is needed here");
    if (word.type !== "name") throw this.#problem(word, `a field is needed here, not "${word.text}"`);
    if (!isField(word.text)) {
      const names = Object.keys(whereFieldKinds).join(", ");
      throw this.#problem(word, `there is no field "${word.text}"; the fields are ${names}`);
    }
    this.#next++;
    return word.text;
  }

  #list(name: WhereFieldName): WhereValue[] {
    this.#need("(");
    const values = [this.#value(name)];
    while (this.#take(",")) values.push(this.#value(name));
    this.#need(")");
    return values;
  }

  #value(name: WhereFieldName): WhereValue {
    const word = this.#word;
    const { type } = whereFieldKinds[name];
    if (word.type === "name" && word.text === "null") {
      this.#next++;
      return null;
    }
    if (word.type === "name") throw this.#problem(word, `a value is needed; texts stand in quotes: "${word.text}"`);
    if (word.type !== "number" && word.type !== "text") throw this.#problem(word, "a value is needed here");
    if (word.type !== type) {
      const wanted = type === "number" ? "a number" : "a text in quotes";
      throw this.#problem(word, `"${name}" is compared with ${wanted}`);
    }
    this.#next++;
    return type === "number" ? Number(word.text) : word.text;
  }

  get #word(): WhereWord {
    return this.#words[this.#next] ?? { type: "end", text: "", at: this.#expression.length };
  }

  /** Goes past the word when it is this one; a text in quotes never is. */
  #take(text: string): boolean {
    const word = this.#word;
    const isIt = word.text === text && (word.type === "name" || word.type === "operator");
    if (isIt) this.#next++;
    return isIt;
  }

  #need(text: string): void {
    const word = this.#word;
    if (!this.#take(text)) throw this.#problem(word, `"${text}" is needed here`);
  }

  #problem(word: WhereWord, problem: string): WhereError {
    return new WhereError(this.#expression, word.at, problem);
  }
}

function isField(name: string): name is WhereFieldName {
  return Object.hasOwn(whereFieldKinds, name);
}

function orderOf(found: number | string, value: number | string): number {
  return found < value ? -1 : found > value ? 1 : 0;
}
