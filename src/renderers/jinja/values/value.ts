// The values that a template computes with: JSON without loss, and what Jinja and Python add to it. Not Python's object
// model: only what chat templates can reach.

import type { JsonFloat } from "../../../python-semantics/json/index.ts";
import type { TracedText } from "./traced-text.ts";

/** Integers are a `number` while safe, a `bigint` beyond; `null` is None. An unset variable is JavaScript's `undefined`. */
export type Value = null | boolean | number | bigint | JsonFloat | TracedText | PythonObject;

export type Integer = number | bigint;

/** Everything that is neither a scalar nor text. */
export abstract class PythonObject {
  /** `type(value).__name__`. */
  abstract readonly typeName: string;
}

/** What a call passes on. */
export type CallArguments = {
  readonly positional: readonly Value[];
  readonly named: ReadonlyMap<string, Value>;
};

export const noArguments: CallArguments = Object.freeze({ positional: [], named: new Map<string, Value>() });

/** Anything that can be called: methods, macros, globals. */
export class Callable extends PythonObject {
  readonly typeName: string;
  readonly name: string;
  readonly call: (args: CallArguments) => Value;

  constructor(name: string, call: (args: CallArguments) => Value, typeName = "builtin_function_or_method") {
    super();
    this.typeName = typeName;
    this.name = name;
    this.call = call;
  }
}

/** A missing variable, key or attribute: prints as nothing and is false; nearly everything else raises. */
export class Undefined extends PythonObject {
  readonly typeName = "Undefined";
  /** What using it says. */
  readonly reason: string;
  /** What using it raises: "undefined", or "security" for what the sandbox hides. */
  readonly kind: "undefined" | "security";

  constructor(reason: string, kind: "undefined" | "security" = "undefined") {
    super();
    this.reason = reason;
    this.kind = kind;
  }
}

/** The value, None included; where there is none, an undefined one that says why. */
export function orUndefined(value: Value | undefined, reason: string): Value {
  return value === undefined ? new Undefined(reason) : value;
}

/** The one mutable thing: `{% set ns.x = ... %}`. */
export class Namespace extends PythonObject {
  readonly typeName = "Namespace";
  readonly attributes: Map<string, Value>;

  constructor(attributes: Map<string, Value>) {
    super();
    this.attributes = attributes;
  }
}
