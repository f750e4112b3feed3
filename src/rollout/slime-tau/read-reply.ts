// A server's answer as the seed reads it, with the exceptions that Python's subscripts raise on answers of another shape.

import { PythonError } from "../../python-semantics/index.ts";

const endMark = "<|im_end|>";

/**
 * The seed's reading of a server's answer: abort or text, one trailing end mark taken off. An answer of another shape
 * throws what Python's subscripts raise, since the seed catches none of it.
 */
export function readReply(output: unknown): { readonly isAborted: boolean; readonly text: string } {
  const finish = subscript(subscript(output, "meta_info"), "finish_reason");
  if (subscript(finish, "type") === "abort") return { isAborted: true, text: "" };
  const text = subscript(output, "text");
  if (typeof text !== "string") {
    throw new PythonError("AttributeError", `'${pythonTypeName(text)}' object has no attribute 'endswith'`);
  }
  return { isAborted: false, text: text.endsWith(endMark) ? text.slice(0, -endMark.length) : text };
}

function subscript(value: unknown, key: string): unknown {
  if (typeof value !== "object" || value === null) {
    throw new PythonError("TypeError", `'${pythonTypeName(value)}' object is not subscriptable`);
  }
  if (Array.isArray(value)) throw new PythonError("TypeError", "list indices must be integers or slices, not str");
  if (!Object.hasOwn(value, key)) throw new PythonError("KeyError", `'${key}'`);
  return (value as Record<string, unknown>)[key];
}

function pythonTypeName(value: unknown): string {
  if (value === null) return "NoneType";
  if (Array.isArray(value)) return "list";
  const names: Record<string, string> = { boolean: "bool", string: "str", object: "dict" };
  return names[typeof value] ?? (Number.isInteger(value) ? "int" : "float");
}
