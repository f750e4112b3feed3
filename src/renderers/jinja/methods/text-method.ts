import type { CallArguments, Value } from "../values/value.ts";
import type { TracedText } from "../values/traced-text.ts";

/** A method of `str`. Throws what Python throws for arguments that do not fit. */
export type TextMethod = (text: TracedText, args: CallArguments) => Value;
