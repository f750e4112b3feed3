import { AttributeObject } from "../values/attribute-object.ts";
import { typeError, undefinedError } from "../values/raise.ts";
import { typeNameOf } from "../values/type-name.ts";
import { Callable, type CallArguments, Undefined, type Value } from "../values/value.ts";

/** `callee(args)`. Throws "undefined" (or "security" for what the sandbox hides), and a "TypeError" for other values. */
export function callValue(callee: Value, args: CallArguments): Value {
  if (callee instanceof Callable || callee instanceof AttributeObject) return callee.call(args);
  if (callee instanceof Undefined) throw undefinedError(callee);
  throw typeError(`a ${typeNameOf(callee)} was called`);
}
