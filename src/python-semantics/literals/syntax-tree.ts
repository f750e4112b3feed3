// The tree of a Python expression, as far as formats look into it.

import type { PythonValue } from "./value.ts";

export type PythonNode =
  | { readonly type: "constant"; readonly value: PythonValue }
  | { readonly type: "name"; readonly name: string }
  | { readonly type: "list" | "tuple" | "set"; readonly items: readonly PythonNode[] }
  /** A `null` key unpacks another mapping. */
  | { readonly type: "dict"; readonly entries: readonly (readonly [PythonNode | null, PythonNode])[] }
  | {
      readonly type: "call";
      readonly callee: PythonNode;
      readonly keywords: readonly PythonKeyword[];
      readonly hasPositional: boolean;
    }
  | { readonly type: "unary"; readonly operator: string; readonly operand: PythonNode }
  | { readonly type: "binary"; readonly operator: string; readonly left: PythonNode; readonly right: PythonNode }
  /** Anything else that is valid. */
  | { readonly type: "other" };

/** A `null` name unpacks a mapping. */
export type PythonKeyword = { readonly name: string | null; readonly value: PythonNode };
