// The text of one Python string literal, with every prefix and escape; of a format string, text and the names it inserts.
// The parser finds where a literal and its replacements lie; it accepts unterminated strings and knows nothing of values, so
// both are settled here.

import type { SyntaxNode } from "@lezer/common";

import { unescapeString } from "../../python-semantics/index.ts";
import { childrenOf, problemAt, quote, textOf, readPython, type PythonSource } from "./python-source.ts";

/** What a string is made of: text, and names to be replaced by values. */
export type StringPart = string | { readonly name: string; readonly node: SyntaxNode };

const opening = /^(?<prefix>[a-z]*)(?<marks>"""|'''|"|')/i;

/**
 * Reads a node `String` or `FormatString`. Throws a `ConfigurationError` for bytes, for what Python refuses, for `\N{...}`
 * (names need Python's database), for halves of surrogate pairs (no file can hold them) and for a format string that
 * inserts anything but a plain name.
 */
export function readString(source: PythonSource, node: SyntaxNode): StringPart[] {
  const text = textOf(source, node);
  const { prefix = "", marks = "" } = opening.exec(text)?.groups ?? {};
  const kind = prefix.toLowerCase();
  if (kind.includes("b")) throw problemAt(source, node, "bytes have no place in the data");
  const start = node.from + prefix.length + marks.length;
  const end = node.to - marks.length;
  if (end < start || !text.endsWith(marks) || countBackslashesBefore(source.text, end, start) % 2 === 1) {
    throw problemAt(source, node, "a string is not terminated");
  }
  const isRaw = kind.includes("r");
  const decode = (from: number, to: number): string => {
    const body = kind.includes("f") ? readBraces(source, from, to, isRaw) : source.text.slice(from, to);
    return isRaw ? body : readPython(source, node, () => unescapeString(body, "file"));
  };

  const parts: StringPart[] = [];
  let position = start;
  for (const replacement of childrenOf(node)) {
    if (replacement.name !== "FormatReplacement") continue;
    parts.push(decode(position, replacement.from), readReplacement(source, replacement));
    position = replacement.to;
  }
  parts.push(decode(position, end));
  return parts.filter((part) => part !== "");
}

function countBackslashesBefore(text: string, end: number, start: number): number {
  let count = 0;
  while (end - count > start && text[end - count - 1] === "\\") count++;
  return count;
}

function readReplacement(source: PythonSource, node: SyntaxNode): StringPart {
  const [open, name, close, ...rest] = childrenOf(node);
  if (open?.name === "{" && name?.name === "VariableName" && close?.name === "}" && rest.length === 0) {
    return { name: textOf(source, name), node: name };
  }
  throw problemAt(source, node, `a format string inserts more than a plain name (${quote(source, node)})`);
}

/** The text of a format string outside of its replacements, where braces are doubled. */
function readBraces(source: PythonSource, from: number, to: number, isRaw: boolean): string {
  const pattern = isRaw ? /\{\{|\}\}|[{}]/g : /\\[^]|\{\{|\}\}|[{}]/g;
  return source.text.slice(from, to).replace(pattern, (found, offset: number) => {
    // The parser takes this brace for escaped, Python for the start of a replacement.
    if (found === "\\{") throw problemAt(source, from + offset, "a backslash stands before a replacement");
    if (found.startsWith("\\")) return found;
    if (found.length === 2) return found[0]!;
    throw problemAt(source, from + offset, `a single "${found}" stands in a format string`);
  });
}
