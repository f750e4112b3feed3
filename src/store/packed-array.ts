// Token ids and logprobs inside JSON: base64 of the little-endian bytes, named by numpy's type. A list of numbers would be
// three times as long and five times as slow. In Python: `numpy.frombuffer(base64.b64decode(x["base64"]), x["dtype"])`.

import { endianness } from "node:os";
import type { JsonValue } from "../lib/json/value.ts";

/** `{"dtype":"<u4","base64":...}` for ids, `"<f4"` for logprobs. */
export function packedText(array: Uint32Array | Float32Array): string {
  const bytes = littleEndian(Buffer.from(array.buffer, array.byteOffset, array.byteLength));
  return `{"dtype":"${array instanceof Uint32Array ? "<u4" : "<f4"}","base64":"${bytes.toString("base64")}"}`;
}

/** The ids of a packed array. Throws a plain error for anything else. */
export function unpackTokens(value: JsonValue): Uint32Array {
  const buffer = unpack(value, "<u4");
  return new Uint32Array(buffer);
}

/** The logprobs of a packed array. Throws a plain error for anything else. */
export function unpackLogprobs(value: JsonValue): Float32Array {
  return new Float32Array(unpack(value, "<f4"));
}

function unpack(value: JsonValue, dtype: string): ArrayBuffer {
  const base64 = value instanceof Map && value.get("dtype") === dtype ? value.get("base64") : null;
  if (typeof base64 !== "string")
    throw new Error(`Cannot unpack an array: {"dtype": "${dtype}", "base64": ...} is needed.`);
  const bytes = littleEndian(Buffer.from(base64, "base64"));
  if (bytes.length % 4 !== 0)
    throw new Error(`Cannot unpack an array: ${bytes.length} bytes are no whole number of entries.`);
  const buffer = new ArrayBuffer(bytes.length);
  new Uint8Array(buffer).set(bytes);
  return buffer;
}

function littleEndian(bytes: Buffer): Buffer {
  return endianness() === "LE" ? bytes : Buffer.from(bytes).swap32();
}
