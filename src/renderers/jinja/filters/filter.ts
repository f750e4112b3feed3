import type { Meter } from "../limits.ts";
import type { CallArguments, Value } from "../values/value.ts";

/** A filter; `args` are those after the value. Throws what Jinja throws for values and arguments that do not fit. */
export type Filter = (value: Value, args: CallArguments, meter: Meter) => Value;
