// A template's text to its statements: Jinja's own grammar with transformers' tag `generation` and the loop controls. Template
// inheritance, imports and autoescape are refused by name.

import { templateText } from "../../python-semantics/index.ts";
import { constant, type Expression, type FilterUse } from "./expression.ts";
import { syntaxError, tokenizeTemplate, unsupportedSyntax } from "./lexer.ts";
import { constants, ExpressionParser, type TupleOptions } from "./parse-expression.ts";
import type { Target } from "./scope.ts";
import {
  callBlock,
  filterBlock,
  forStatement,
  generation,
  ifStatement,
  loopControl,
  macroStatement,
  output,
  type Parameter,
  setBlock,
  setStatement,
  type Statement,
  withStatement,
} from "./statement.ts";

/** Throws a `ChatTemplateError` for a template that Jinja cannot compile, or that we do not support. */
export function parseTemplate(template: string): Statement[] {
  return new TemplateParser(tokenizeTemplate(template)).body([]);
}

const unsupportedTags = ["block", "extends", "include", "import", "from", "autoescape"];

class TemplateParser extends ExpressionParser {
  /** Statements up to a tag of one of these names, whose name is then the next token; without names, to the end. */
  body(ends: readonly string[]): Statement[] {
    const statements: Statement[] = [];
    for (;;) {
      const token = this.next();
      if (token.type === "text") {
        statements.push(output(constant(templateText(token.value))));
      } else if (token.type === "expression") {
        statements.push(output(this.tuple()));
        this.take("end");
      } else if (token.type === "statement") {
        if (this.sees(...ends)) return statements;
        statements.push(...this.#statement());
        this.take("end");
      } else {
        if (ends.length > 0) throw syntaxError(`the tag "${ends.join('" or "')}" is missing`);
        return statements;
      }
    }
  }

  /** The rest of a tag that opens a block, and the block. Leaves the parser at the name of the tag that ends it. */
  #block(...ends: readonly string[]): Statement[] {
    this.takes(":");
    this.take("end");
    return this.body(ends);
  }

  /** A block up to the one tag that can end it. */
  #wholeBlock(end: string): Statement[] {
    const body = this.#block(end);
    this.next();
    return body;
  }

  #statement(): Statement[] {
    const tag = this.take("name");
    switch (tag) {
      case "for":
        return [this.#for()];
      case "if":
        return [this.#if()];
      case "print":
        return this.#separated(() => output(this.expression()));
      case "macro": {
        const name = this.#variable();
        return [macroStatement({ name, parameters: this.#parameters(), body: this.#wholeBlock("endmacro") })];
      }
      case "set": {
        const target = this.#target({ allowsNamespace: true });
        if (this.takes("=")) return [setStatement(target, this.tuple())];
        return [setBlock(target, this.#filters([]), this.#wholeBlock("endset"))];
      }
      case "with": {
        const assignments = this.#separated(() => {
          const target = this.#target();
          this.expect("=");
          return { target, value: this.expression() };
        });
        return [withStatement(assignments, this.#wholeBlock("endwith"))];
      }
      case "call": {
        const parameters = this.sees("(") ? this.#parameters() : [];
        const call = this.expression();
        return [callBlock(call, { name: "caller", parameters, body: this.#wholeBlock("endcall") })];
      }
      case "filter":
        return [filterBlock(this.#filters([this.filter()]), this.#wholeBlock("endfilter"))];
      case "generation":
        return [generation(this.#wholeBlock("endgeneration"))];
      case "break":
      case "continue":
        return [loopControl(tag)];
      default:
        throw unsupportedTags.includes(tag)
          ? unsupportedSyntax(`the tag "${tag}"`)
          : syntaxError(`there is no tag "${tag}"`);
    }
  }

  #for(): Statement {
    const target = this.#target({ ends: ["in"] });
    this.expect("in");
    const iterable = this.tuple({ isConditional: false, ends: ["recursive"] });
    const test = this.takes("if") ? this.expression() : null;
    const isRecursive = this.takes("recursive");
    const body = this.#block("endfor", "else");
    const otherwise = this.take("name") === "else" ? this.#wholeBlock("endfor") : [];
    return forStatement({ target, iterable, test, body, otherwise, isRecursive });
  }

  #if(): Statement {
    const test = this.tuple({ isConditional: false });
    const body = this.#block("elif", "else", "endif");
    const end = this.take("name");
    const otherwise = end === "elif" ? [this.#if()] : end === "else" ? this.#wholeBlock("endif") : [];
    return ifStatement(test, body, otherwise);
  }

  /** Reads the comma-separated items in the rest of a tag. */
  #separated<T>(read: () => T): T[] {
    const items: T[] = [];
    while (this.peek().type !== "end") {
      if (items.length > 0) this.expect(",");
      items.push(read());
    }
    return items;
  }

  #parameters(): Parameter[] {
    const parameters: Parameter[] = [];
    this.expect("(");
    while (!this.takes(")")) {
      if (parameters.length > 0) this.expect(",");
      const name = this.#variable();
      const value = this.takes("=") ? this.expression() : null;
      if (value === null && parameters.at(-1)?.default)
        throw syntaxError("a parameter without a default follows one with");
      parameters.push({ name, default: value });
    }
    return parameters;
  }

  #variable(): string {
    const name = this.take("name");
    if (constants.has(name)) throw syntaxError(`"${name}" cannot be assigned to`);
    return name;
  }

  #target(options: TupleOptions = {}): Target {
    const { target }: Expression = this.tuple({ ...options, isTarget: true });
    if (target === null) throw syntaxError("something is assigned to that is not a name");
    return target;
  }

  #filters(filters: FilterUse[]): FilterUse[] {
    while (this.takes("|")) filters.push(this.filter());
    return filters;
  }
}
