import { typeError } from "./raise.ts";
import { type CallArguments, PythonObject, type Value } from "./value.ts";

/** An object that templates ask for attributes, and that may be callable: the loop, a cycler. */
export abstract class AttributeObject extends PythonObject {
  /** `undefined` when there is no such attribute. */
  abstract attribute(name: string): Value | undefined;

  /** Throws a "TypeError" unless the object can be called. */
  call(_args: CallArguments): Value {
    throw typeError(`a ${this.typeName} was called`);
  }
}
