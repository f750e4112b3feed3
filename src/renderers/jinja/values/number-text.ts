// Numbers in and out of text, as Python reads and writes them: `int(text)`, `float(text)`, `int(float)`.

import { JsonFloat } from "../../../python-semantics/json/index.ts";
import { pythonInt, pythonStrip } from "../../../python-semantics/index.ts";
import { normalizeInteger } from "../operations/division.ts";
import { pythonError, valueError } from "./raise.ts";
import type { Integer } from "./value.ts";

const floatPattern = /^[+-]?(?:\d+(?:_\d+)*\.?(?:\d+(?:_\d+)*)?|\.\d+(?:_\d+)*)(?:e[+-]?\d+(?:_\d+)*)?$/i;
const specialPattern = /^([+-]?)(?:(inf|infinity)|nan)$/i;

/** `float(text)`; `null` where Python raises ValueError. */
export function parseFloatText(text: string): JsonFloat | null {
  const stripped = pythonStrip(text);
  if (floatPattern.test(stripped)) return new JsonFloat(Number(stripped.replaceAll("_", "")));
  const special = specialPattern.exec(stripped);
  if (special === null) return null;
  if (special[2] === undefined) return new JsonFloat(NaN);
  return new JsonFloat(special[1] === "-" ? -Infinity : Infinity);
}

/** `int(text, base)`; `null` where Python raises ValueError. */
export function parseIntegerText(text: string, base: number): Integer | null {
  if (base === 10) {
    try {
      return pythonInt(text);
    } catch {
      return null;
    }
  }
  const [, sign = "", digits = ""] = /^([+-]?)(.*)$/s.exec(pythonStrip(text).toLowerCase()) ?? [];
  const prefix = { "0b": 2, "0o": 8, "0x": 16 }[digits.slice(0, 2)];
  const hasPrefix = prefix !== undefined && (base === 0 || base === prefix);
  const effective = hasPrefix ? prefix : base === 0 ? 10 : base;
  const body = (hasPrefix ? digits.slice(2).replace(/^_/, "") : digits).replace(/(?<=[^_])_(?=[^_])/g, "");
  if (body === "" || !Array.from(body).every((digit) => Number.isInteger(parseInt(digit, effective)))) return null;
  const value = Array.from(body).reduce((sum, digit) => sum * BigInt(effective) + BigInt(parseInt(digit, 36)), 0n);
  return normalizeInteger(sign === "-" ? -value : value);
}

/** `int(float)`. Throws where Python does: for infinities and NaN. */
export function truncateFloat(value: number): Integer {
  if (Number.isNaN(value)) throw valueError("NaN was to be an integer");
  if (!Number.isFinite(value)) throw pythonError("OverflowError", "an infinity was to be an integer");
  return normalizeInteger(BigInt(Math.trunc(value)));
}
