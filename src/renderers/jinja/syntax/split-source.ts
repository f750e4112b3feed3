// A template cut into text and tags, with white space treated as transformers configures Jinja: the newline after a block
// tag goes, and so do the blanks before one that starts a line; `-` takes all white space, `+` takes none.

import { pythonRstrip } from "../../../python-semantics/index.ts";
import { whitespaceClass } from "../values/whitespace.ts";
import { readCode } from "./read-code.ts";
import { syntaxError } from "./syntax-error.ts";
import type { Token } from "./token.ts";

export type SourcePiece =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "statement" | "expression"; readonly tokens: readonly Token[] };

const s = `[${whitespaceClass}]*`;
const tagStart = /\{[%{#]/g;
const rawStart = new RegExp(`\\{%[-+]?${s}raw${s}(?:-%\\}${s}|%\\})`, "y");
const rawEnd = new RegExp(`\\{%([-+]?)${s}endraw${s}(?:\\+%\\}|-%\\}${s}|%\\}\\n?)`, "g");
const commentEnd = new RegExp(`\\+#\\}|-#\\}${s}|#\\}\\n?`, "g");
const statementEnd = new RegExp(`\\+%\\}|-%\\}${s}|%\\}\\n?`, "y");
const expressionEnd = new RegExp(`-\\}\\}${s}|\\}\\}`, "y");
const blank = new RegExp(`^[${whitespaceClass}]+$`);

/** Throws a `ChatTemplateError` for a tag or comment that does not end. */
export function splitSource(template: string): SourcePiece[] {
  const source = normalizeLines(template);
  const pieces: SourcePiece[] = [];
  let offset = 0;
  const addText = (text: string): void => {
    if (text !== "") pieces.push({ type: "text", text });
  };
  for (;;) {
    const start = placeOf(tagStart, source, offset)?.index;
    if (start === undefined) {
      addText(source.slice(offset));
      return pieces;
    }
    const kind = source[start + 1];
    const sign = source[start + 2];
    addText(stripBefore(source.slice(offset, start), {
      sign,
      isExpression: kind === "{",
      startsLine: offset === 0 || source[offset - 1] === "\n",
    })); // prettier-ignore
    const inner = start + 2 + (sign === "-" || sign === "+" ? 1 : 0);
    const raw = kind === "%" ? placeOf(rawStart, source, start) : null;
    if (raw !== null) {
      const begin = start + raw[0].length;
      const end = placeOf(rawEnd, source, begin);
      if (end === null) throw syntaxError("a raw block does not end");
      const startsLine = source[begin - 1] === "\n";
      addText(stripBefore(source.slice(begin, end.index), { sign: end[1], isExpression: false, startsLine }));
      offset = end.index + end[0].length;
    } else if (kind === "#") {
      const end = placeOf(commentEnd, source, inner);
      if (end === null) throw syntaxError("a comment does not end");
      offset = end.index + end[0].length;
    } else {
      const code = readCode(source, inner, kind === "%" ? statementEnd : expressionEnd);
      pieces.push({ type: kind === "%" ? "statement" : "expression", tokens: code.tokens });
      offset = code.end;
    }
  }
}

/** Every line end becomes "\n", and one at the very end is dropped. */
function normalizeLines(template: string): string {
  return template.replace(/\r\n?/g, "\n").replace(/\n$/, "");
}

function placeOf(pattern: RegExp, source: string, offset: number): RegExpExecArray | null {
  pattern.lastIndex = offset;
  return pattern.exec(source);
}

type Before = { readonly sign: string | undefined; readonly isExpression: boolean; readonly startsLine: boolean };

function stripBefore(text: string, { sign, isExpression, startsLine }: Before): string {
  if (sign === "-") return pythonRstrip(text);
  if (sign === "+" || isExpression) return text;
  const lineStart = text.lastIndexOf("\n") + 1;
  const isOwnLine = lineStart > 0 || startsLine;
  return isOwnLine && blank.test(text.slice(lineStart)) ? text.slice(0, lineStart) : text;
}
