// The GGUF format (version 3) as bytes: a header, named values, the list of tensors, then the tensors, each beginning at a
// multiple of 32 (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). Floats of 32 bits alone; what the values mean
// is the caller's.

import type { Tensor } from "../safetensors.ts";

export type GgufValue =
  | { readonly type: "integer"; readonly value: number }
  | { readonly type: "float"; readonly value: number }
  | { readonly type: "flag"; readonly value: boolean }
  | { readonly type: "text"; readonly value: string }
  | { readonly type: "texts"; readonly values: readonly string[] }
  | { readonly type: "integers"; readonly values: readonly number[] };

const typeCodes = { integer: 4, signedInteger: 5, float: 6, flag: 7, text: 8, list: 9 } as const;
const alignment = 32;

/** Tensors in the order given; their shapes are ours ([outputs, inputs]), the file's run the other way round. */
export function ggufBytes(values: ReadonlyMap<string, GgufValue>, tensors: ReadonlyMap<string, Tensor>): Uint8Array {
  const writer = new ByteWriter();
  writer.bytes(new TextEncoder().encode("GGUF"));
  writer.integer(3);
  writer.long(tensors.size);
  writer.long(values.size);
  for (const [name, value] of values) {
    writer.text(name);
    writeValue(writer, value);
  }
  let offset = 0;
  for (const [name, tensor] of tensors) {
    writer.text(name);
    writer.integer(tensor.shape.length);
    for (const length of tensor.shape.toReversed()) writer.long(length);
    writer.integer(0);
    writer.long(offset);
    offset = aligned(offset + tensor.values.byteLength);
  }
  writer.align(alignment);
  for (const { values: floats } of tensors.values()) {
    writer.bytes(new Uint8Array(floats.buffer, floats.byteOffset, floats.byteLength));
    writer.align(alignment);
  }
  return writer.finish();
}

function writeValue(writer: ByteWriter, value: GgufValue): void {
  switch (value.type) {
    case "integer":
      writer.integer(typeCodes.integer);
      writer.integer(value.value);
      break;
    case "float":
      writer.integer(typeCodes.float);
      writer.float(value.value);
      break;
    case "flag":
      writer.integer(typeCodes.flag);
      writer.bytes(Uint8Array.of(value.value ? 1 : 0));
      break;
    case "text":
      writer.integer(typeCodes.text);
      writer.text(value.value);
      break;
    case "texts":
      writer.list(typeCodes.text, value.values.length);
      for (const text of value.values) writer.text(text);
      break;
    case "integers":
      writer.list(typeCodes.signedInteger, value.values.length);
      for (const number of value.values) writer.integer(number);
      break;
    default:
      value satisfies never;
  }
}

function aligned(offset: number): number {
  return Math.ceil(offset / alignment) * alignment;
}

/** Little-endian, growing. */
class ByteWriter {
  readonly #parts: Uint8Array[] = [];
  #length = 0;

  bytes(part: Uint8Array): void {
    this.#parts.push(part);
    this.#length += part.byteLength;
  }

  integer(value: number): void {
    this.bytes(new Uint8Array(Uint32Array.of(value).buffer));
  }

  long(value: number): void {
    this.bytes(new Uint8Array(BigUint64Array.of(BigInt(value)).buffer));
  }

  float(value: number): void {
    this.bytes(new Uint8Array(Float32Array.of(value).buffer));
  }

  text(value: string): void {
    const encoded = new TextEncoder().encode(value);
    this.long(encoded.byteLength);
    this.bytes(encoded);
  }

  list(type: number, length: number): void {
    this.integer(typeCodes.list);
    this.integer(type);
    this.long(length);
  }

  align(to: number): void {
    this.bytes(new Uint8Array((to - (this.#length % to)) % to));
  }

  finish(): Uint8Array {
    const all = new Uint8Array(this.#length);
    let at = 0;
    for (const part of this.#parts) {
      all.set(part, at);
      at += part.byteLength;
    }
    return all;
  }
}
