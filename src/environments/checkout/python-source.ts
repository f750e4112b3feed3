// A Python source as a syntax tree, with the place of every node. Parsed by a maintained parser in its strict mode, which
// stops at the first thing that is no Python (so hostile text costs no recovery) and bounds nesting by itself. Nothing is
// ever executed; what the nodes mean is for the other files of this folder.

import type { SyntaxNode } from "@lezer/common";
import { parser } from "@lezer/python";

import { ConfigurationError } from "../../core/index.ts";
import { PythonError } from "../../python-semantics/index.ts";

export type PythonSource = {
  /** Path within the checkout, for messages. */
  readonly file: string;
  /** What to do about a source that cannot be read, as the end of a sentence. */
  readonly remedy: string;
  /** With line feeds alone, as Python reads it. */
  readonly text: string;
  readonly top: SyntaxNode;
};

/** Characters; the largest source of upstream has 0.5 million and takes 0.2 s. */
const maxCharacters = 1_000_000;

const strictParser = parser.configure({ strict: true });

/** Throws a `ConfigurationError` that names file and line, and ends with the remedy, when the text is no Python. */
export function parsePython(file: string, content: string, remedy: string): PythonSource {
  // The byte order mark is Python's to skip; the parser would read it as part of a name.
  const text = (content.startsWith("\ufeff") ? content.slice(1) : content)
    .replaceAll("\r\n", "\n")
    .replaceAll("\r", "\n");
  if (text.length > maxCharacters) {
    throw problemAt({ file, text, remedy }, 0, `the file has ${text.length} characters, ${maxCharacters} is the most`);
  }
  const nul = text.indexOf("\0");
  if (nul >= 0) throw problemAt({ file, text, remedy }, nul, "there is a null character");
  const parse = strictParser.startParse(text);
  for (;;) {
    let tree: ReturnType<typeof parse.advance>;
    try {
      tree = parse.advance();
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      throw problemAt({ file, text, remedy }, parse.parsedPos, "this is not Python, or it is nested too deeply");
    }
    if (tree !== null) return { file, text, remedy, top: tree.topNode };
  }
}

/** An error about one place of a source: `problem` is what stands there, without a full stop. */
export function problemAt(
  source: Pick<PythonSource, "file" | "text" | "remedy">,
  place: SyntaxNode | number,
  problem: string,
): ConfigurationError {
  const position = typeof place === "number" ? place : place.from;
  const line = source.text.slice(0, position).split("\n").length;
  return new ConfigurationError(`Cannot read "${source.file}", line ${line}: ${problem}; ${source.remedy}.`);
}

/** The children that mean something: comments may stand anywhere. */
export function childrenOf(node: SyntaxNode): SyntaxNode[] {
  const children: SyntaxNode[] = [];
  for (let child = node.firstChild; child !== null; child = child.nextSibling) {
    if (child.name !== "Comment") children.push(child);
  }
  return children;
}

/** What stands between commas; nothing between two of them is left out. */
export function splitAtCommas<Item>(items: readonly Item[], isComma: (item: Item) => boolean): Item[][] {
  const pieces: Item[][] = [[]];
  for (const item of items) {
    if (isComma(item)) pieces.push([]);
    else pieces.at(-1)?.push(item);
  }
  return pieces.filter((piece) => piece.length > 0);
}

export const textOf = (source: PythonSource, node: SyntaxNode): string => source.text.slice(node.from, node.to);

/** A value of the node that Python's own reader makes; what it refuses is an error about the node. */
export function readPython<Value>(source: PythonSource, node: SyntaxNode, read: () => Value): Value {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof PythonError)) throw error;
    throw problemAt(source, node, `${error.message} (${quote(source, node)})`);
  }
}

/** A short quotation of a node, safe to print. */
export function quote(source: PythonSource, node: SyntaxNode): string {
  const text = textOf(source, node);
  return JSON.stringify(text.length > 40 ? `${text.slice(0, 40)}…` : text);
}
