// A Python source as a syntax tree, with the position of every node. Parsed by a maintained parser
// in its strict mode, which stops at the first text that is not Python (so hostile text costs no
// recovery) and bounds nesting itself. Nothing is ever executed. This file resolves names to
// bindings; `read-literal.ts` reads values.

import type { SyntaxNode } from "@lezer/common";
import { parser } from "@lezer/python";
import { ConfigurationError } from "../../core/index.ts";
import { PythonError } from "../../python-semantics/index.ts";

export type PythonSource = {
  /** Path within the checkout, for messages. */
  readonly file: string;
  /** Remedy for a source that cannot be read, as the end of a sentence. */
  readonly remedy: string;
  /** Text with line feeds as its only line ends, as Python reads it. */
  readonly text: string;
  readonly top: SyntaxNode;
};

/** Limit in characters; the largest upstream source has 0.5 million and takes 0.2 s. */
const maxCharacters = 1_000_000;

const strictParser = parser.configure({ strict: true });

/**
 * Parses a source. Throws a `ConfigurationError` that names file and line, and ends with the
 * remedy, if the text is not Python.
 */
export function parsePython(file: string, content: string, remedy: string): PythonSource {
  // Python skips a byte order mark, but the parser would read it as part of a name.
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

/**
 * An error about one position in a source: `problem` is the fault at that position, without a full
 * stop.
 */
export function problemAt(
  source: Pick<PythonSource, "file" | "text" | "remedy">,
  place: SyntaxNode | number,
  problem: string,
): ConfigurationError {
  const position = typeof place === "number" ? place : place.from;
  const line = source.text.slice(0, position).split("\n").length;
  return new ConfigurationError(`Cannot read "${source.file}", line ${line}: ${problem}; ${source.remedy}.`);
}

/** The children of a node without comments, which may occur anywhere. */
export function childrenOf(node: SyntaxNode): SyntaxNode[] {
  const children: SyntaxNode[] = [];
  for (let child = node.firstChild; child !== null; child = child.nextSibling) {
    if (child.name !== "Comment") children.push(child);
  }
  return children;
}

/** The items between commas; empty pieces are dropped. */
export function splitAtCommas<Item>(items: readonly Item[], isComma: (item: Item) => boolean): Item[][] {
  const pieces: Item[][] = [[]];
  for (const item of items) {
    if (isComma(item)) pieces.push([]);
    else pieces.at(-1)?.push(item);
  }
  return pieces.filter((piece) => piece.length > 0);
}

export const textOf = (source: PythonSource, node: SyntaxNode): string => source.text.slice(node.from, node.to);

/** The value that Python's own reader gives for the node; a refusal becomes an error about the node. */
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

// The bindings of a module, class body or function body: imports, assignments, classes and
// functions. Not an interpreter: a statement that could change a binding in any other way (a loop,
// a call, `x += 1`, `from y import *`) is listed separately, and no binding of such a scope is
// read, because the name could mean anything.

export type Binding =
  /** `module` includes its leading dots; `name` is `null` if the module itself is bound. */
  | { readonly type: "import"; readonly node: SyntaxNode; readonly module: string; readonly name: string | null }
  | { readonly type: "assignment"; readonly node: SyntaxNode; readonly value: SyntaxNode }
  | { readonly type: "class"; readonly node: SyntaxNode; readonly decorators: readonly SyntaxNode[] }
  | { readonly type: "function"; readonly node: SyntaxNode; readonly decorators: readonly SyntaxNode[] };

export type Scope = {
  readonly node: SyntaxNode;
  readonly bindings: ReadonlyMap<string, readonly Binding[]>;
  /** Statements that are not understood as bindings, in source order. */
  readonly others: readonly SyntaxNode[];
};

/** The scope of a module (its top node), or of a class or function (its definition). */
export function readScope(source: PythonSource, owner: SyntaxNode): Scope {
  const bindings = new Map<string, Binding[]>();
  const others: SyntaxNode[] = [];
  for (const statement of statementsOf(owner)) {
    const found = readStatement(source, statement);
    if (found === null) others.push(statement);
    for (const [name, binding] of found ?? []) {
      const same = bindings.get(name);
      if (same === undefined) bindings.set(name, [binding]);
      else same.push(binding);
    }
  }
  return { node: owner, bindings, others };
}

/**
 * The only binding of a name. Throws a `ConfigurationError` if there is none, several, or one of
 * another kind, or if the scope has statements that could change it.
 */
export function findBinding<T extends Binding["type"]>(
  source: PythonSource,
  scope: Scope,
  name: string,
  type: T,
): Extract<Binding, { readonly type: T }> {
  const [other] = scope.others;
  if (other !== undefined)
    throw problemAt(source, other, `a statement could change "${name}" (${quote(source, other)})`);
  const [first, second] = scope.bindings.get(name) ?? [];
  if (first === undefined) throw problemAt(source, scope.node, `there is no ${type} "${name}"`);
  if (second !== undefined) throw problemAt(source, second.node, `"${name}" is defined a second time`);
  if (!isOfType(first, type)) throw problemAt(source, first.node, `"${name}" is no ${type}`);
  return first;
}

function isOfType<T extends Binding["type"]>(
  binding: Binding,
  type: T,
): binding is Extract<Binding, { readonly type: T }> {
  return binding.type === type;
}

/** The statements of a module, class or function, including those after a semicolon. */
export function statementsOf(owner: SyntaxNode): SyntaxNode[] {
  const container = owner.name === "Script" ? owner : childrenOf(owner).find((child) => child.name === "Body");
  if (container === undefined) return [];
  return childrenOf(container)
    .flatMap((child) => (child.name === "StatementGroup" ? childrenOf(child) : [child]))
    .filter((child) => child.name !== ":" && child.name !== ";");
}

/** The bindings of a statement; `null` if its effect is not understood. */
function readStatement(source: PythonSource, statement: SyntaxNode): (readonly [string, Binding])[] | null {
  const children = childrenOf(statement);
  switch (statement.name) {
    case "PassStatement":
      return [];
    case "ExpressionStatement":
      return isDescription(statement) ? [] : null;
    case "IfStatement":
      return isSkipped(source, statement) ? [] : null;
    case "ImportStatement":
      return readImport(source, statement);
    case "AssignStatement":
      return readAssignment(source, statement);
    case "ClassDefinition":
    case "FunctionDefinition":
      return readDefinition(source, statement, []);
    case "DecoratedStatement": {
      const definition = children.at(-1);
      return definition === undefined ? null : readDefinition(source, definition, children.slice(0, -1));
    }
    default:
      return null;
  }
}

/** True if a statement is only a string, which has no effect. */
export function isDescription(statement: SyntaxNode): boolean {
  const [text, ...rest] = childrenOf(statement);
  return statement.name === "ExpressionStatement" && text?.name === "String" && rest.length === 0;
}

/**
 * True for `if __name__ == "__main__":` and `if TYPE_CHECKING:` without further branches: their
 * bodies do not run when the module is imported.
 */
function isSkipped(source: PythonSource, statement: SyntaxNode): boolean {
  const [, condition, body, ...rest] = childrenOf(statement);
  if (condition === undefined || body?.name !== "Body" || rest.length > 0) return false;
  return /^(?:TYPE_CHECKING|__name__ *== *(?:"__main__"|'__main__'))$/.test(textOf(source, condition));
}

function readDefinition(
  source: PythonSource,
  node: SyntaxNode,
  decorators: readonly SyntaxNode[],
): (readonly [string, Binding])[] | null {
  const name = childrenOf(node).find((child) => child.name === "VariableName");
  if (name === undefined) return null;
  const type = node.name === "ClassDefinition" ? "class" : "function";
  return [[textOf(source, name), { type, node, decorators }]];
}

/** Reads `name = value` and `name: Type = value`; a bare `name: Type` binds nothing. */
export function readAssignment(source: PythonSource, statement: SyntaxNode): (readonly [string, Binding])[] | null {
  const [target, ...rest] = childrenOf(statement).filter((child) => child.name !== "TypeDef");
  if (target?.name !== "VariableName") return null;
  if (rest.length === 0) return [];
  const [operator, value] = rest;
  if (operator?.name !== "AssignOp" || value === undefined || rest.length > 2) return null;
  return [[textOf(source, target), { type: "assignment", node: statement, value }]];
}

function readImport(source: PythonSource, node: SyntaxNode): (readonly [string, Binding])[] | null {
  const parts = childrenOf(node).map((child) => textOf(source, child));
  if (parts.includes("*")) return null;
  const importAt = parts.indexOf("import");
  const from = parts[0] === "from" ? parts.slice(1, importAt).join("") : null;
  const names = parts.slice(importAt + 1).filter((part) => part !== "(" && part !== ")");
  const bindings: (readonly [string, Binding])[] = [];
  for (const item of splitAtCommas(names, (part) => part === ",")) {
    const asAt = item.indexOf("as");
    const path = (asAt < 0 ? item : item.slice(0, asAt)).join("");
    const alias = asAt < 0 ? null : (item[asAt + 1] ?? null);
    const [head = ""] = path.split(".");
    const [module, name] = from === null ? [path, null] : [from, path];
    bindings.push([alias ?? head, { type: "import", node, module, name }]);
  }
  return bindings;
}
