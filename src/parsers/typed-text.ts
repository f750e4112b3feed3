// Arguments that a format writes as bare text, read as what a schema declares. Readers answer `undefined` for text that is
// nothing of the kind; what Python raises beyond that (infinite integers, nesting) passes.

import { type JsonFloat, type JsonValue, parseJson } from "../python-semantics/json/index.ts";
import {
  narrowFloat,
  pythonFloat,
  pythonInt,
  pythonLower,
  pythonStrip,
  unlessRaised,
} from "../python-semantics/index.ts";

const switches: ReadonlyMap<string, boolean> = new Map([
  ...["true", "1", "yes", "on"].map((word): [string, boolean] => [word, true]),
  ...["false", "0", "no", "off"].map((word): [string, boolean] => [word, false]),
]);

export const readInteger = (text: string): number | bigint | undefined =>
  unlessRaised(["ValueError"], () => pythonInt(text));

/** A float, or the integer it equals. */
export const readNumber = (text: string): JsonFloat | number | bigint | undefined =>
  unlessRaised(["ValueError"], () => narrowFloat(pythonFloat(text)));

/** Words for on and off in any case. */
export const readSwitch = (text: string): boolean | undefined => switches.get(pythonStrip(pythonLower(text)));

export const readJson = (text: string): JsonValue | undefined =>
  unlessRaised(["JSONDecodeError"], () => parseJson(text));

/** Names that schemas use for the kinds above. */
export const kindNames = {
  text: ["string", "str"],
  integer: ["integer", "int"],
  number: ["number", "float"],
  switch: ["boolean", "bool"],
} as const;
