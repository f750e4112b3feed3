import { JsonSyntaxError } from "../json/index.ts";
import { PythonError } from "../python-error.ts";

/**
 * The class of the Python exception that `error` stands for; `null` when it is a mistake of our own. What the reference
 * parser lets out is data about the model's output: serving code catches it and falls back to the plain text. The class is
 * all that counts of it; the words within these errors are our own.
 */
export function pythonExceptionType(error: unknown): string | null {
  if (error instanceof PythonError || error instanceof JsonSyntaxError) return error.pythonType;
  return null;
}

/** What `read` gives; `undefined` where it raises a Python exception of one of these classes (`null`: of any). */
export function unlessRaised<Value>(classes: readonly string[] | null, read: () => Value): Value | undefined {
  try {
    return read();
  } catch (error) {
    const raised = pythonExceptionType(error);
    if (raised !== null && (classes === null || classes.includes(raised))) return undefined;
    throw error;
  }
}
