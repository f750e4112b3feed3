// A template's text to its tree: Jinja's own grammar, rule for rule (`jinja2/parser.py` of 3.1), with transformers' tag
// `generation` and the loop controls. Template inheritance, imports and autoescape are refused by name.

import { type BinaryOperator, normalInteger, templateText } from "../../python-semantics/index.ts";
import { JsonFloat } from "../../python-semantics/json/index.ts";
import { syntaxError, TokenCursor, tokenizeTemplate, unsupportedSyntax } from "./lexer.ts";
import type { ArgumentNodes, CompareOperator, Expression, FilterNode, Parameter, Statement, Target } from "./nodes.ts";

/** Throws a `ChatTemplateError` for a template that Jinja cannot compile, or that we do not support. */
export function parseTemplate(template: string): Statement[] {
  return new Parser(tokenizeTemplate(template)).body([]);
}

const constants: ReadonlyMap<string, boolean | null> = new Map([
  ["true", true],
  ["True", true],
  ["false", false],
  ["False", false],
  ["none", null],
  ["None", null],
]);

const comparisons = ["==", "!=", "<", "<=", ">", ">="];
const unsupportedTags = ["block", "extends", "include", "import", "from", "autoescape"];
const noArguments: ArgumentNodes = { positional: [], named: [], spread: null, namedSpread: null };

class Parser extends TokenCursor {
  /** Statements up to a tag of one of these names, whose name is then the next token; without names, to the end. */
  body(ends: readonly string[]): Statement[] {
    const statements: Statement[] = [];
    for (;;) {
      const token = this.next();
      if (token.type === "text") {
        statements.push({ type: "output", expression: { type: "constant", value: templateText(token.value) } });
      } else if (token.type === "expression") {
        statements.push({ type: "output", expression: this.#tuple() });
        this.endTag();
      } else if (token.type === "statement") {
        if (this.seesName(...ends)) return statements;
        statements.push(...this.#statement());
        this.endTag();
      } else {
        if (ends.length > 0) throw syntaxError(`the tag "${ends.join('" or "')}" is missing`);
        return statements;
      }
    }
  }

  /** The rest of a tag that opens a block, and the block. Leaves the parser at the name of the tag that ends it. */
  #block(...ends: readonly string[]): Statement[] {
    this.takes(":");
    this.endTag();
    return this.body(ends);
  }

  /** A block up to the one tag that can end it. */
  #wholeBlock(end: string): Statement[] {
    const body = this.#block(end);
    this.next();
    return body;
  }

  #statement(): Statement[] {
    const tag = this.name();
    switch (tag) {
      case "for":
        return [this.#for()];
      case "if":
        return [this.#if()];
      case "print":
        return this.#print();
      case "macro": {
        const name = this.#targetName();
        return [{ type: "macro", name, parameters: this.#parameters(), body: this.#wholeBlock("endmacro") }];
      }
      case "set":
        return [this.#set()];
      case "with":
        return [this.#with()];
      case "call":
        return [this.#call()];
      case "filter": {
        const filters = this.#filters([this.#filter()]);
        return [{ type: "filter-block", filters, body: this.#wholeBlock("endfilter") }];
      }
      case "generation":
        return [{ type: "call-block", call: null, parameters: [], body: this.#wholeBlock("endgeneration") }];
      case "break":
      case "continue":
        return [{ type: tag }];
      default:
        throw unsupportedTags.includes(tag)
          ? unsupportedSyntax(`the tag "${tag}"`)
          : syntaxError(`there is no tag "${tag}"`);
    }
  }

  #for(): Statement {
    const target = this.#target({ ends: ["in"] });
    this.expectName("in");
    const iterable = this.#tuple({ isConditional: false, ends: ["recursive"] });
    const test = this.takesName("if") ? this.#expression() : null;
    const isRecursive = this.takesName("recursive");
    const body = this.#block("endfor", "else");
    const otherwise = this.name() === "else" ? this.#wholeBlock("endfor") : [];
    return { type: "for", target, iterable, test, body, otherwise, isRecursive };
  }

  #if(): Statement {
    const test = this.#tuple({ isConditional: false });
    const body = this.#block("elif", "else", "endif");
    const end = this.name();
    const otherwise = end === "elif" ? [this.#if()] : end === "else" ? this.#wholeBlock("endif") : [];
    return { type: "if", test, body, otherwise };
  }

  #print(): Statement[] {
    const outputs: Statement[] = [];
    while (this.peek().type !== "end") {
      if (outputs.length > 0) this.expect(",");
      outputs.push({ type: "output", expression: this.#expression() });
    }
    return outputs;
  }

  #set(): Statement {
    const target = this.#target({ allowsNamespace: true });
    if (this.takes("=")) return { type: "set", target, value: this.#tuple() };
    const filters = this.#filters([]);
    return { type: "set-block", target, filters, body: this.#wholeBlock("endset") };
  }

  #with(): Statement {
    const targets: Target[] = [];
    const values: Expression[] = [];
    while (this.peek().type !== "end") {
      if (targets.length > 0) this.expect(",");
      targets.push(this.#target());
      this.expect("=");
      values.push(this.#expression());
    }
    return { type: "with", targets, values, body: this.#wholeBlock("endwith") };
  }

  #call(): Statement {
    const parameters = this.sees("(") ? this.#parameters() : [];
    const call = this.#expression();
    if (call.type !== "call") throw syntaxError("a call block calls nothing");
    return { type: "call-block", call, parameters, body: this.#wholeBlock("endcall") };
  }

  #parameters(): Parameter[] {
    const parameters: Parameter[] = [];
    this.expect("(");
    while (!this.takes(")")) {
      if (parameters.length > 0) this.expect(",");
      const name = this.#targetName();
      const value = this.takes("=") ? this.#expression() : null;
      if (value === null && parameters.at(-1)?.default)
        throw syntaxError("a parameter without a default follows one with");
      parameters.push({ name, default: value });
    }
    return parameters;
  }

  #targetName(): string {
    const name = this.name();
    if (constants.has(name)) throw syntaxError(`"${name}" cannot be assigned to`);
    return name;
  }

  #target(options: { readonly allowsNamespace?: boolean; readonly ends?: readonly string[] } = {}): Target {
    return asTarget(this.#tuple({ ...options, isTarget: true }));
  }

  /** One expression, or several between commas: a tuple. */
  #tuple(options: TupleOptions = {}): Expression {
    const items: Expression[] = [];
    for (;;) {
      if (items.length > 0) this.expect(",");
      if (this.peek().type === "end" || this.sees(")") || this.seesName(...(options.ends ?? []))) break;
      if (options.isTarget === true) items.push(this.#primary(options.allowsNamespace));
      else items.push(options.isConditional === false ? this.#or() : this.#expression());
      if (!this.sees(",")) return items.length === 1 ? items[0]! : { type: "tuple", items };
    }
    if (items.length === 0 && options.isParenthesized !== true) throw this.unexpected();
    return { type: "tuple", items };
  }

  #expression(): Expression {
    let expression = this.#or();
    while (this.takesName("if")) {
      const test = this.#or();
      const whenFalse = this.takesName("else") ? this.#expression() : null;
      expression = { type: "conditional", test, whenTrue: expression, whenFalse };
    }
    return expression;
  }

  #or(): Expression {
    let left = this.#and();
    while (this.takesName("or")) left = { type: "logic", operator: "or", left, right: this.#and() };
    return left;
  }

  #and(): Expression {
    let left = this.#not();
    while (this.takesName("and")) left = { type: "logic", operator: "and", left, right: this.#not() };
    return left;
  }

  #not(): Expression {
    return this.takesName("not") ? { type: "not", operand: this.#not() } : this.#comparison();
  }

  #comparison(): Expression {
    const first = this.#sum();
    const rest: { operator: CompareOperator; operand: Expression }[] = [];
    for (;;) {
      const token = this.peek();
      let operator = token.value as CompareOperator;
      if (
        token.type === "name" &&
        token.value === "not" &&
        this.peek(1).type === "name" &&
        this.peek(1).value === "in"
      ) {
        this.next();
        operator = "not in";
      } else if (!this.seesName("in") && !(token.type === "operator" && comparisons.includes(token.value))) {
        return rest.length === 0 ? first : { type: "compare", first, rest };
      }
      this.next();
      rest.push({ operator, operand: this.#sum() });
    }
  }

  #sum(): Expression {
    return this.#chain(["+", "-"], () => this.#concatenation());
  }

  #concatenation(): Expression {
    const parts = [this.#product()];
    while (this.takes("~")) parts.push(this.#product());
    return parts.length === 1 ? parts[0]! : { type: "concat", parts };
  }

  #product(): Expression {
    return this.#chain(["*", "/", "//", "%"], () => this.#chain(["**"], () => this.#unary(true)));
  }

  #chain(operators: readonly BinaryOperator[], operand: () => Expression): Expression {
    let left = operand();
    for (;;) {
      const operator = operators.find((sign) => this.takes(sign));
      if (operator === undefined) return left;
      left = { type: "arithmetic", operator, left, right: operand() };
    }
  }

  /** A sign binds closer than a filter, and what hangs on its operand may also hang on the signed value. */
  #unary(allowsFilters: boolean): Expression {
    const sign = this.takes("-") ? "-" : this.takes("+") ? "+" : null;
    const operand: Expression =
      sign === null ? this.#primary() : { type: "sign", operator: sign, operand: this.#unary(false) };
    const value = this.#postfix(operand);
    return allowsFilters ? this.#filtered(value) : value;
  }

  #primary(allowsNamespace = false): Expression {
    const token = this.peek();
    if (token.type !== "operator") this.next();
    switch (token.type) {
      case "name": {
        const constant = constants.get(token.value);
        if (constant !== undefined) return { type: "constant", value: constant };
        const name: Expression = { type: "name", name: token.value };
        return allowsNamespace && this.takes(".") ? { type: "attribute", object: name, name: this.name() } : name;
      }
      case "string": {
        let text = token.value;
        while (this.peek().type === "string") text += this.next().value;
        return { type: "constant", value: templateText(text) };
      }
      case "integer":
        return { type: "constant", value: normalInteger(BigInt(token.value)) };
      case "float":
        return { type: "constant", value: new JsonFloat(Number(token.value)) };
      default:
    }
    if (this.takes("(")) {
      const inner = this.#tuple({ isParenthesized: true });
      this.expect(")");
      return inner;
    }
    if (this.takes("[")) return { type: "list", items: this.#listed("]", () => this.#expression()) };
    if (this.takes("{")) return { type: "dict", entries: this.#listed("}", () => this.#entry()) };
    throw this.unexpected();
  }

  #entry(): { readonly key: Expression; readonly value: Expression } {
    const key = this.#expression();
    this.expect(":");
    return { key, value: this.#expression() };
  }

  /** Items between commas, the last of which may be followed by nothing. */
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
      else if (this.sees("(")) value = { type: "call", callee: value, args: this.#arguments() };
      else return value;
    }
  }

  #filtered(value: Expression): Expression {
    for (;;) {
      if (this.takes("|")) value = { type: "filter", operand: value, filter: this.#filter() };
      else if (this.takesName("is")) value = this.#test(value);
      else if (this.sees("(")) value = { type: "call", callee: value, args: this.#arguments() };
      else return value;
    }
  }

  #attribute(object: Expression): Expression {
    const token = this.next();
    if (token.type === "name") return { type: "attribute", object, name: token.value };
    if (token.type !== "integer") throw syntaxError("a point is followed by neither name nor number");
    return { type: "item", object, key: { type: "constant", value: normalInteger(BigInt(token.value)) } };
  }

  #subscript(object: Expression): Expression {
    const parts: (Expression | Bounds)[] = [];
    while (!this.takes("]")) {
      if (parts.length > 0) this.expect(",");
      parts.push(this.#subscripted());
    }
    const [only] = parts;
    if (only !== undefined && parts.length === 1) {
      return "type" in only ? { type: "item", object, key: only } : { type: "slice", object, ...only };
    }
    const items = parts.map((part) => {
      if ("type" in part) return part;
      throw unsupportedSyntax("a slice among several keys");
    });
    return { type: "item", object, key: { type: "tuple", items } };
  }

  #subscripted(): Expression | Bounds {
    const bound = (): Expression | null =>
      this.sees(":") || this.sees("]") || this.sees(",") ? null : this.#expression();
    const start = this.sees(":") ? null : this.#expression();
    if (!this.takes(":")) return start ?? this.#expression();
    const stop = bound();
    return { start, stop, step: this.takes(":") ? bound() : null };
  }

  #filters(filters: FilterNode[]): FilterNode[] {
    while (this.takes("|")) filters.push(this.#filter());
    return filters;
  }

  #filter(): FilterNode {
    const name = this.#dottedName();
    return { name, args: this.sees("(") ? this.#arguments() : noArguments };
  }

  #dottedName(): string {
    let name = this.name();
    while (this.takes(".")) name += `.${this.name()}`;
    return name;
  }

  #test(operand: Expression): Expression {
    const isNegated = this.takesName("not");
    const name = this.#dottedName();
    return { type: "test", operand, name, isNegated, args: this.#testArguments() };
  }

  /** A parenthesized list, or one operand with what hangs on it. Any name is an operand but these three. */
  #testArguments(): ArgumentNodes {
    if (this.sees("(")) return this.#arguments();
    const { type } = this.peek();
    const isOperand =
      (type === "name" && !this.seesName("else", "or", "and")) ||
      ["string", "integer", "float"].includes(type) ||
      this.sees("[") ||
      this.sees("{");
    if (!isOperand) return noArguments;
    if (this.seesName("is")) throw syntaxError('tests cannot be chained with "is"');
    return { ...noArguments, positional: [this.#postfix(this.#primary())] };
  }

  #arguments(): ArgumentNodes {
    const positional: Expression[] = [];
    const named: { name: string; value: Expression }[] = [];
    let spread: Expression | null = null;
    let namedSpread: Expression | null = null;
    const require = (isValid: boolean): void => {
      if (!isValid) throw syntaxError("the arguments of a call are out of order");
    };
    this.expect("(");
    this.#listed(")", () => {
      if (this.takes("*")) {
        require(spread === null && namedSpread === null);
        spread = this.#expression();
      } else if (this.takes("**")) {
        require(namedSpread === null);
        namedSpread = this.#expression();
      } else if (this.peek().type === "name" && this.peek(1).type === "operator" && this.peek(1).value === "=") {
        require(namedSpread === null);
        const name = this.name();
        this.next();
        named.push({ name, value: this.#expression() });
      } else {
        require(spread === null && namedSpread === null && named.length === 0);
        positional.push(this.#expression());
      }
    });
    return { positional, named, spread, namedSpread };
  }
}

type TupleOptions = {
  /** Whether `x if y` may stand in it; default true. */
  readonly isConditional?: boolean;
  readonly isParenthesized?: boolean;
  /** Only names, and tuples of them. */
  readonly isTarget?: boolean;
  readonly allowsNamespace?: boolean;
  /** Names that end it. */
  readonly ends?: readonly string[];
};

type Bounds = { readonly start: Expression | null; readonly stop: Expression | null; readonly step: Expression | null };

function asTarget(expression: Expression): Target {
  if (expression.type === "name") return { type: "name", name: expression.name };
  if (expression.type === "tuple") return { type: "tuple", items: expression.items.map(asTarget) };
  if (expression.type === "attribute" && expression.object.type === "name") {
    return { type: "namespace", name: expression.object.name, attribute: expression.name };
  }
  throw syntaxError("something is assigned to that is no name");
}
