// The nested tags of MiniMax M3 as a value: objects, lists of `<item>`, leaves by their declared type. Throws a
// `PythonError` for tags that do not nest.

import type { JsonValue } from "../../python-semantics/json/index.ts";
import { PythonError, pythonStrip, type PythonValue } from "../../python-semantics/index.ts";
import { kindNames, readInteger, readNumber, readSwitch } from "../typed-text.ts";
import { MinimaxShape } from "./minimax-shape.ts";

/** Stands before every tag. */
export const tagPrefix = "]<]minimax[>[";

/** Under construction: containers grow while their tags are open. */
type Growing =
  | Exclude<PythonValue, readonly PythonValue[] | ReadonlyMap<string, PythonValue>>
  | Growing[]
  | Map<string, Growing>;

/** A tag that is open, in the one around it. */
type OpenTag = {
  readonly name: string;
  readonly shape: MinimaxShape;
  readonly value: Growing;
  readonly around: OpenTag | null;
};

/** A piece behind the prefix: a tag, its end perhaps missing, and text. */
const piecePattern = /^<(?<slash>\/?)(?<name>[^>]*)(?<end>>?)(?<text>[^]*)$/;

export function readMinimaxTree(body: string, parameters: JsonValue): PythonValue {
  const pieces = body.split(tagPrefix).map((piece) => pythonStrip(piece)).filter((piece) => piece !== ""); // prettier-ignore
  const shape = new MinimaxShape(parameters);
  const isList = shape.isList && pieces[0]?.startsWith("<item>") === true;
  const root: Growing = isList ? [] : new Map();
  let inner: OpenTag = { name: "", shape, value: root, around: null };
  for (const piece of pieces) {
    const parts = piecePattern.exec(piece)?.groups;
    if (parts === undefined) continue;
    const name = pythonStrip(parts["name"]!);
    if (parts["slash"] === "/") {
      inner = closed(inner, name);
    } else {
      if (parts["end"] === "") throw new PythonError("ValueError", "a tag that does not end");
      inner = opened(inner, name, parts["text"]!);
    }
  }
  return root;
}

function opened(around: OpenTag, name: string, text: string): OpenTag {
  const place = Array.isArray(around.value) ? around.value.length : 0;
  const shape = around.shape.inside(name, place);
  const isLeaf = text !== "" || shape.isScalar;
  return { name, shape, around, value: isLeaf ? readLeaf(text, shape) : shape.isList ? [] : new Map() };
}

/** Puts what the tag holds into the one around it, which is the inner one again. */
function closed({ name, value, around }: OpenTag, closing: string): OpenTag {
  if (around === null || name !== closing) throw new PythonError("ValueError", "a closing tag out of place");
  const parent = around.value;
  if (Array.isArray(parent)) {
    parent.push(value);
  } else if (parent instanceof Map) {
    // A tag that comes again makes a list.
    const former = parent.get(name);
    if (Array.isArray(former)) former.push(value);
    else parent.set(name, former === undefined ? value : [former, value]);
  } else {
    throw new PythonError("TypeError", "a value with text has no children");
  }
  return around;
}

function readLeaf(text: string, shape: MinimaxShape): Growing {
  const isNullable = shape.allows(["null"]);
  if (shape.allows(kindNames.text) && !isNullable) return text;
  if (isNullable && ["null", "Null", "NULL", ""].includes(text)) return null;
  const readers = [
    [kindNames.integer, readInteger],
    [kindNames.number, readNumber],
    [kindNames.switch, readSwitch],
  ] as const;
  for (const [types, read] of readers) {
    const value = shape.allows(types) ? read(text) : undefined;
    if (value !== undefined) return value;
  }
  return text;
}
