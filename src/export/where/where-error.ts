import { ConfigurationError } from "../../core/index.ts";

/** An expression that cannot be read; the message shows the place below it. */
export class WhereError extends ConfigurationError {
  constructor(expression: string, at: number, problem: string) {
    const shown = expression.replaceAll(/\s/g, " ");
    super(`Cannot read the expression at character ${at + 1}: ${problem}.\n  ${shown}\n  ${" ".repeat(at)}^`);
    this.name = "WhereError";
  }
}
