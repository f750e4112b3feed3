// A place in a row of Python tokens, and what stands there.

import { type PythonToken, syntaxError } from "./tokens.ts";

export class TokenCursor {
  readonly #tokens: readonly PythonToken[];
  #at = 0;

  constructor(tokens: readonly PythonToken[]) {
    this.#tokens = tokens;
  }

  advance(count = 1): void {
    this.#at += count;
  }

  /** The token after the one that stands here. */
  peekAfter(): PythonToken {
    return this.#tokens[this.#at + 1] ?? { type: "end" };
  }

  peek(): PythonToken {
    return this.#tokens[this.#at] ?? { type: "end" };
  }

  sees(operator: string): boolean {
    const token = this.peek();
    return token.type === "operator" && token.text === operator;
  }

  takes(operator: string): boolean {
    const isSeen = this.sees(operator);
    if (isSeen) this.#at++;
    return isSeen;
  }

  expect(operator: string): void {
    if (!this.takes(operator)) throw syntaxError("invalid syntax");
  }

  seesKeyword(keyword: string): boolean {
    const token = this.peek();
    return token.type === "keyword" && token.text === keyword;
  }

  takesKeyword(keyword: string): boolean {
    const isSeen = this.seesKeyword(keyword);
    if (isSeen) this.#at++;
    return isSeen;
  }

  expectKeyword(keyword: string): void {
    if (!this.takesKeyword(keyword)) throw syntaxError("invalid syntax");
  }

  expectName(): void {
    if (this.peek().type !== "name") throw syntaxError("invalid syntax");
    this.#at++;
  }
}
