// Reads expressions: Jinja's own grammar, rule for rule (`jinja2/parser.py` of 3.1).

import { normalInteger, templateText } from "../../python-semantics/index.ts";
import { JsonFloat } from "../../python-semantics/json/index.ts";
import {
  type ArgumentParts,
  type Arguments,
  argumentsOf,
  arithmetic,
  attributeOf,
  type Bounds,
  callOf,
  type Comparison,
  comparison,
  comparisons,
  concatenation,
  conditional,
  constant,
  dictOf,
  type Expression,
  filtered,
  type FilterUse,
  filterUse,
  itemOf,
  listOf,
  logic,
  nameOf,
  negation,
  noArguments,
  noElse,
  signed,
  sliceOf,
  tested,
  type TestUse,
  tupleOf,
} from "./expression.ts";
import { syntaxError, TokenCursor, unsupportedSyntax } from "./lexer.ts";
import { namespaceTarget } from "./scope.ts";

export const constants: ReadonlyMap<string, boolean | null> = new Map([
  ["true", true],
  ["True", true],
  ["false", false],
  ["False", false],
  ["none", null],
  ["None", null],
]);

export type TupleOptions = {
  /** True if the tuple may contain `x if y`; default true. */
  readonly isConditional?: boolean;
  readonly isParenthesized?: boolean;
  /** True if it may contain only names, and tuples of them. */
  readonly isTarget?: boolean;
  readonly allowsNamespace?: boolean;
  /** Names that end it. */
  readonly ends?: readonly string[];
};

/** Reads expressions; the methods are Jinja's rules, weakest binding first. */
export class ExpressionParser extends TokenCursor {
  /** One expression, or several between commas: a tuple. */
  protected tuple(options: TupleOptions = {}): Expression {
    const items: Expression[] = [];
    for (;;) {
      if (items.length > 0) this.expect(",");
      if (this.peek().type === "end" || this.sees(")", ...(options.ends ?? []))) break;
      if (options.isTarget === true) items.push(this.#primary(options.allowsNamespace));
      else items.push(options.isConditional === false ? this.#or() : this.expression());
      if (!this.sees(",")) return items.length === 1 ? items[0]! : tupleOf(items);
    }
    if (items.length === 0 && options.isParenthesized !== true) throw this.unexpected();
    return tupleOf(items);
  }

  protected expression(): Expression {
    let value = this.#or();
    while (this.takes("if")) {
      const test = this.#or();
      value = conditional(test, value, this.takes("else") ? this.expression() : noElse);
    }
    return value;
  }

  #or(): Expression {
    return this.#chain(["or"], () => this.#chain(["and"], () => this.#not(), logic), logic);
  }

  #not(): Expression {
    return this.takes("not") ? negation(this.#not()) : this.#comparison();
  }

  #comparison(): Expression {
    const first = this.#sum();
    const rest: Comparison[] = [];
    for (;;) {
      const isNegated = this.sees("not") && this.peek(1).type === "name" && this.peek(1).value === "in";
      if (isNegated) this.next();
      if (!this.sees(...Object.keys(comparisons))) return rest.length === 0 ? first : comparison(first, rest);
      const { value } = this.next();
      rest.push({ operator: isNegated ? "not in" : value, operand: this.#sum() });
    }
  }

  #sum(): Expression {
    return this.#chain(["+", "-"], () => this.#concatenation(), arithmetic);
  }

  #concatenation(): Expression {
    const parts = [this.#product()];
    while (this.takes("~")) parts.push(this.#product());
    return parts.length === 1 ? parts[0]! : concatenation(parts);
  }

  #product(): Expression {
    const power = (): Expression => this.#chain(["**"], () => this.#unary(true), arithmetic);
    return this.#chain(["*", "/", "//", "%"], power, arithmetic);
  }

  /** Operands between operators of one precedence, from left to right. */
  #chain<Operator extends string>(
    operators: readonly Operator[],
    operand: () => Expression,
    combine: (operator: Operator, left: Expression, right: Expression) => Expression,
  ): Expression {
    let left = operand();
    for (;;) {
      const operator = operators.find((sign) => this.takes(sign));
      if (operator === undefined) return left;
      left = combine(operator, left, operand());
    }
  }

  /**
   * A sign binds closer than a filter, and a postfix of its operand may also apply to the signed
   * value.
   */
  #unary(allowsFilters: boolean): Expression {
    const sign = this.takes("-") ? "-" : this.takes("+") ? "+" : null;
    const operand = sign === null ? this.#primary() : signed(sign, this.#unary(false));
    const value = this.#postfix(operand);
    return allowsFilters ? this.#filtered(value) : value;
  }

  #primary(allowsNamespace = false): Expression {
    const token = this.peek();
    if (token.type !== "operator") this.next();
    switch (token.type) {
      case "name": {
        const named = constants.get(token.value);
        if (named !== undefined) return constant(named);
        const name = nameOf(token.value);
        if (!allowsNamespace || !this.takes(".")) return name;
        const attribute = this.take("name");
        return { ...attributeOf(name, attribute), target: namespaceTarget(token.value, attribute) };
      }
      case "string": {
        let text = token.value;
        while (this.peek().type === "string") text += this.next().value;
        return constant(templateText(text));
      }
      case "integer":
        return constant(normalInteger(BigInt(token.value)));
      case "float":
        return constant(new JsonFloat(Number(token.value)));
      default:
    }
    if (this.takes("(")) {
      const inner = this.tuple({ isParenthesized: true });
      this.expect(")");
      return inner;
    }
    if (this.takes("[")) return listOf(this.#listed("]", () => this.expression()));
    if (this.takes("{")) return dictOf(this.#listed("}", () => this.#entry()));
    throw this.unexpected();
  }

  #entry(): readonly [Expression, Expression] {
    const key = this.expression();
    this.expect(":");
    return [key, this.expression()];
  }

  /** Items between commas; a trailing comma is allowed. */
  #listed<T>(end: string, read: () => T): T[] {
    const items: T[] = [];
    while (!this.takes(end)) {
      if (items.length > 0) this.expect(",");
      if (items.length > 0 && this.takes(end)) break;
      items.push(read());
    }
    return items;
  }

  #postfix(value: Expression): Expression {
    for (;;) {
      if (this.takes(".")) value = this.#attribute(value);
      else if (this.takes("[")) value = this.#subscript(value);
      else if (this.sees("(")) value = callOf(value, this.#arguments());
      else return value;
    }
  }

  #filtered(value: Expression): Expression {
    for (;;) {
      if (this.takes("|")) value = filtered(value, this.filter());
      else if (this.takes("is")) value = tested(value, this.#test());
      else if (this.sees("(")) value = callOf(value, this.#arguments());
      else return value;
    }
  }

  #attribute(object: Expression): Expression {
    const token = this.next();
    if (token.type === "name") return attributeOf(object, token.value);
    if (token.type !== "integer") throw syntaxError("a dot is followed by neither a name nor a number");
    return itemOf(object, constant(normalInteger(BigInt(token.value))));
  }

  #subscript(object: Expression): Expression {
    const parts: (Expression | Bounds)[] = [];
    while (!this.takes("]")) {
      if (parts.length > 0) this.expect(",");
      parts.push(this.#subscripted());
    }
    const [only] = parts;
    if (only !== undefined && parts.length === 1) {
      if ("compile" in only) return itemOf(object, only);
      return sliceOf(object, only);
    }
    const items = parts.map((part) => {
      if ("compile" in part) return part;
      throw unsupportedSyntax("a slice among several keys");
    });
    return itemOf(object, tupleOf(items));
  }

  #subscripted(): Expression | Bounds {
    const bound = (): Expression | null => (this.sees(":", "]", ",") ? null : this.expression());
    const start = this.sees(":") ? null : this.expression();
    if (!this.takes(":")) return start ?? this.expression();
    const stop = bound();
    return { start, stop, step: this.takes(":") ? bound() : null };
  }

  protected filter(): FilterUse {
    const name = this.#dottedName();
    return filterUse(name, this.sees("(") ? this.#arguments() : noArguments);
  }

  #dottedName(): string {
    let name = this.take("name");
    while (this.takes(".")) name += `.${this.take("name")}`;
    return name;
  }

  #test(): TestUse {
    const isNegated = this.takes("not");
    return { isNegated, name: this.#dottedName(), args: this.#testArguments() };
  }

  /**
   * A parenthesized list, or one operand with its postfixes. Any name is an operand except these
   * three.
   */
  #testArguments(): Arguments {
    if (this.sees("(")) return this.#arguments();
    const isOperand =
      (["name", "string", "integer", "float"].includes(this.peek().type) && !this.sees("else", "or", "and")) ||
      this.sees("[", "{");
    if (!isOperand) return noArguments;
    if (this.sees("is")) throw syntaxError('tests cannot be chained with "is"');
    const only = this.#postfix(this.#primary());
    return argumentsOf({ positional: [only], named: [], spread: null, namedSpread: null });
  }

  #arguments(): Arguments {
    const parts: ArgumentParts = { positional: [], named: [], spread: null, namedSpread: null };
    const require = (isValid: boolean): void => {
      if (!isValid) throw syntaxError("the arguments of a call are out of order");
    };
    this.expect("(");
    this.#listed(")", () => {
      if (this.takes("*")) {
        require(parts.spread === null && parts.namedSpread === null);
        parts.spread = this.expression();
      } else if (this.takes("**")) {
        require(parts.namedSpread === null);
        parts.namedSpread = this.expression();
      } else if (this.peek().type === "name" && this.peek(1).type === "operator" && this.peek(1).value === "=") {
        require(parts.namedSpread === null);
        const { value: name } = this.next();
        this.next();
        parts.named.push({ name, value: this.expression() });
      } else {
        require(parts.spread === null && parts.namedSpread === null && parts.named.length === 0);
        parts.positional.push(this.expression());
      }
    });
    return argumentsOf(parts);
  }
}
