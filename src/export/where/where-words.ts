// An expression as words. Everything that is none is refused here, with its place.

import { WhereError } from "./where-error.ts";

export type WhereWord = {
  readonly type: "name" | "number" | "text" | "operator" | "end";
  /** As written; a text without its quotes and escapes. */
  readonly text: string;
  /** Place of its first character. */
  readonly at: number;
};

const wordPattern =
  /\s*(?:(?<name>[A-Za-z_]\w*)|(?<number>-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?<operator>==|!=|<=|>=|<|>|\(|\)|,))/y;

/** The words in order, an "end" behind them. Throws a `WhereError`. */
export function whereWords(expression: string): WhereWord[] {
  const words: WhereWord[] = [];
  let at = 0;
  for (;;) {
    wordPattern.lastIndex = at;
    const groups = wordPattern.exec(expression)?.groups;
    if (groups === undefined) break;
    const end = wordPattern.lastIndex;
    for (const type of ["name", "number", "text", "operator"] as const) {
      const text = groups[type];
      if (text === undefined) continue;
      words.push({ type, text: type === "text" ? unquoted(text) : text, at: end - text.length });
    }
    at = end;
  }
  const rest = expression.slice(at).trimStart();
  const place = expression.length - rest.length;
  if (rest === "") return [...words, { type: "end", text: "", at: expression.length }];
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
