// Token ids and logprobs inside JSON: base64 of the little-endian bytes, named by numpy's type. A list of numbers would be
// three times as long and five times as slow. In Python: `numpy.frombuffer(base64.b64decode(x["base64"]), x["dtype"])`.

import { endianness } from "node:os";
import type { JsonValue } from "../python-semantics/json/value.ts";
import type { ByteWriter } from "./byte-writer.ts";

/** More entries than this are faster encoded by the platform, fewer by a loop that makes no text of them. */
const mostLooped = 256;

/** `{"dtype":"<u4","base64":...}` for ids, `"<f4"` for logprobs. */
export function writePacked(writer: ByteWriter, array: Uint32Array | Float32Array): void {
  const isIds = array instanceof Uint32Array;
  writer.ascii(isIds ? '{"dtype":"<u4","base64":"' : '{"dtype":"<f4","base64":"');
  if (array.length > mostLooped) {
    writer.ascii(littleEndian(Buffer.from(array.buffer, array.byteOffset, array.byteLength)).toString("base64"));
  } else {
    writer.base64(isIds ? array : new Uint32Array(array.buffer, array.byteOffset, array.length));
  }
  writer.ascii('"}');
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
