// Python's binding of a call's arguments to parameters, and the checks that built-in functions make on them.

import { typeError } from "./errors.ts";
import { pythonTypeName } from "./json/value.ts";
import { TracedText } from "./traced-text.ts";
import type { CallArguments, PythonValue } from "./values.ts";

/**
 * The arguments in the order of `parameters`; `undefined` where one is left out. Throws a "TypeError" for too many, unknown
 * or missing ones, as Python does.
 */
export function bindArguments(
  callee: string,
  args: CallArguments,
  parameters: readonly string[],
  required = 0,
): readonly (PythonValue | undefined)[] {
  if (args.positional.length > parameters.length) {
    throw typeError(`${callee} takes at most ${parameters.length} arguments, not ${args.positional.length}`);
  }
  const bound: (PythonValue | undefined)[] = [...args.positional];
  for (const [name, value] of args.named) {
    const index = parameters.indexOf(name);
    if (index === -1 || index < args.positional.length) {
      throw typeError(`${callee} takes no further argument "${name}"`);
    }
    bound[index] = value;
  }
  for (let index = 0; index < required; index++) {
    if (bound[index] === undefined) throw typeError(`${callee} lacks the argument "${parameters[index]}"`);
  }
  return bound;
}

/** Arguments of a method that Python lets be given by position only. */
export function bindPositional(
  callee: string,
  args: CallArguments,
  required: number,
  most: number,
): readonly PythonValue[] {
  if (args.named.size > 0) throw typeError(`${callee} takes no keyword arguments`);
  const { length } = args.positional;
  if (length < required || length > most) throw typeError(`${callee} does not take ${length} arguments`);
  return args.positional;
}

export function expectText(value: PythonValue, callee: string): TracedText {
  if (value instanceof TracedText) return value;
  throw typeError(`${callee} takes a text, not a ${pythonTypeName(value)}`);
}
