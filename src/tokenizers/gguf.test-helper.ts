// Writes GGUF files without tensors, sound and hostile ones: keys and values are given as they are
// to be written.

import { writeFile } from "node:fs/promises";

/** A value with its type as it is written: a text, a number of a type, or a list. */
export type Written = Buffer;

const u32 = (value: number): Buffer => Buffer.from(Uint32Array.of(value).buffer);
export const u64 = (value: number | bigint): Buffer => Buffer.from(BigUint64Array.of(BigInt(value)).buffer);
/** A text with its length, without a type. */
export const bytesOf = (value: string | Buffer): Buffer =>
  Buffer.concat([u64(Buffer.from(value).length), Buffer.from(value)]);

export const text = (value: string | Buffer): Written => Buffer.concat([u32(8), bytesOf(value)]);
export const flag = (value: number): Written => Buffer.concat([u32(7), Buffer.of(value)]);
export const id = (value: number): Written => Buffer.concat([u32(4), u32(value)]);
export const texts = (values: readonly string[], length: number | bigint = values.length): Written =>
  Buffer.concat([u32(9), u32(8), u64(length), ...values.map(bytesOf)]);
export const integers = (values: readonly number[], length: number | bigint = values.length): Written =>
  Buffer.concat([u32(9), u32(5), u64(length), Buffer.from(Int32Array.from(values).buffer)]);
export const floats = (values: readonly number[]): Written =>
  Buffer.concat([u32(9), u32(6), u64(values.length), Buffer.from(Float32Array.from(values).buffer)]);
/** A list whose elements are of any type number. */
export const listOf = (type: number, length: number | bigint, elements: Buffer): Written =>
  Buffer.concat([u32(9), u32(type), u64(length), elements]);

type Head = { readonly magic?: string; readonly version?: number; readonly count?: number | bigint };

/** The bytes of a file with these keys; a key may be there twice. */
export function ggufBytes(values: readonly (readonly [key: string, value: Written])[], head: Head = {}): Buffer {
  const { magic = "GGUF", version = 3, count = values.length } = head;
  const written = values.flatMap(([key, value]) => [bytesOf(key), value]);
  return Buffer.concat([Buffer.from(magic), u32(version), u64(0), u64(count), ...written]);
}

/** A byte-level vocabulary with two merges and a control token, as its keys and values. */
export function byteLevelKeys(
  byteNames: readonly string[],
  { pre = "qwen2", template = "{{ messages }}" }: { readonly pre?: string; readonly template?: string | null } = {},
): (readonly [key: string, value: Written])[] {
  const tokens = [...byteNames, "he", "hel", "<|im_start|>", "<|im_end|>", "<tool_call>"];
  const types = tokens.map((token) => (token.startsWith("<|") ? 3 : token === "<tool_call>" ? 4 : 1));
  return [
    ["general.architecture", text("qwen2")],
    ["tokenizer.ggml.model", text("gpt2")],
    ["tokenizer.ggml.pre", text(pre)],
    ["tokenizer.ggml.tokens", texts(tokens)],
    ["tokenizer.ggml.token_type", integers(types)],
    ["tokenizer.ggml.merges", texts(["h e", "he l"])],
    ["tokenizer.ggml.eos_token_id", id(tokens.indexOf("<|im_end|>"))],
    ...(template === null ? [] : [["tokenizer.chat_template", text(template)] as const]),
  ];
}

export async function writeGguf(path: string, bytes: Buffer): Promise<string> {
  await writeFile(path, bytes);
  return path;
}
