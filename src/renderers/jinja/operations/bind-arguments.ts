// Python's binding of a call's arguments to parameters, and the checks that built-in functions make on them.

import { JsonFloat } from "../../../python-semantics/json/index.ts";
import { typeError } from "../values/raise.ts";
import { TracedText } from "../values/traced-text.ts";
import { typeNameOf } from "../values/type-name.ts";
import type { CallArguments, Value } from "../values/value.ts";

/**
 * The arguments in the order of `parameters`; `undefined` where one is left out. Throws a "TypeError" for too many, unknown
 * or missing ones, as Python does.
 */
export function bindArguments(
  callee: string,
  args: CallArguments,
  parameters: readonly string[],
  required = 0,
): readonly (Value | undefined)[] {
  if (args.positional.length > parameters.length) {
    throw typeError(`${callee} takes at most ${parameters.length} arguments, not ${args.positional.length}`);
  }
  const bound: (Value | undefined)[] = [...args.positional];
  for (const [name, value] of args.named) {
    const index = parameters.indexOf(name);
    if (index === -1 || index < args.positional.length)
      throw typeError(`${callee} takes no further argument "${name}"`);
    bound[index] = value;
  }
  for (let index = 0; index < required; index++) {
    if (bound[index] === undefined) throw typeError(`${callee} lacks the argument "${parameters[index]}"`);
  }
  return bound;
}

/** Arguments of a method that Python lets be given by position only. */
export function bindPositional(callee: string, args: CallArguments, required: number, most: number): readonly Value[] {
  if (args.named.size > 0) throw typeError(`${callee} takes no keyword arguments`);
  const { length } = args.positional;
  if (length < required || length > most) throw typeError(`${callee} does not take ${length} arguments`);
  return args.positional;
}

export function expectText(value: Value, callee: string): TracedText {
  if (value instanceof TracedText) return value;
  throw typeError(`${callee} wants a text, not a ${typeNameOf(value)}`);
}

/** An argument that Python takes as an index: an int or bool. Huge ones are clipped, which no text or list can tell. */
export function expectIndex(value: Value, callee: string): number {
  if (typeof value === "boolean" || typeof value === "number") return Number(value);
  if (typeof value === "bigint") return value > 0n ? Number.MAX_SAFE_INTEGER : Number.MIN_SAFE_INTEGER;
  const shown = value instanceof JsonFloat ? "float" : typeNameOf(value);
  throw typeError(`${callee} wants an integer, not a ${shown}`);
}
