import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { writeCheckpoint } from "./checkpoint.ts";
import { pairedConfig, wildWeights } from "./tiny-model.test-helper.ts";
import { exportGguf } from "./gguf.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "gguf-"));
});
afterAll(async () => {
  await rm(folder, { recursive: true });
});

const tokenizerJson = {
  model: { type: "BPE", vocab: { a: 0, b: 1, ab: 2 }, merges: [["a", "b"]] },
  added_tokens: [
    { id: 3, content: "<|im_end|>", special: true },
    { id: 4, content: "<tool_call>", special: false },
  ],
};
const tokenizerConfig = { eos_token: { content: "<|im_end|>" }, pad_token: null, chat_template: "{{ messages }}" };

async function writeModel(json: unknown): Promise<Float32Array> {
  const weights = wildWeights(pairedConfig, 1);
  await writeCheckpoint(folder, { config: pairedConfig, weights });
  await writeFile(join(folder, "tokenizer.json"), JSON.stringify(json));
  await writeFile(join(folder, "tokenizer_config.json"), JSON.stringify(tokenizerConfig));
  return weights;
}

/** Reads a GGUF file as its specification says, written independently of the writer. */
function readGguf(file: Buffer) {
  let at = 0;
  const take = (length: number): number => (at += length) - length;
  const u32 = (): number => file.readUInt32LE(take(4));
  const u64 = (): number => Number(file.readBigUInt64LE(take(8)));
  const text = (): string => {
    const length = u64();
    return file.toString("utf8", take(length), at);
  };
  const value = (type: number): unknown => {
    if (type === 4) return u32();
    if (type === 5) return file.readInt32LE(take(4));
    if (type === 6) return file.readFloatLE(take(4));
    if (type === 7) return file.readUInt8(take(1)) === 1;
    if (type === 8) return text();
    const [element, length] = [u32(), u64()];
    return Array.from({ length }, () => value(element));
  };
  const magic = file.toString("latin1", take(4), at);
  const [version, tensorCount, valueCount] = [u32(), u64(), u64()];
  const values = Object.fromEntries(Array.from({ length: valueCount }, () => [text(), value(u32())]));
  const described = Array.from({ length: tensorCount }, () => {
    const name = text();
    const shape = Array.from({ length: u32() }, u64);
    return { name, shape, type: u32(), offset: u64() };
  });
  const start = Math.ceil(at / 32) * 32;
  const tensors = new Map(
    described.map(({ name, shape, type, offset }) => {
      const count = shape.reduce((product, length) => product * length, 1);
      const bytes = file.subarray(start + offset, start + offset + count * 4);
      return [name, { shape, type, offset, values: new Float32Array(new Uint8Array(bytes).buffer) }] as const;
    }),
  );
  return { magic, version, values, tensors };
}

describe("exportGguf()", () => {
  test("writes every weight, the shape and the vocabulary of a model folder", async () => {
    const weights = await writeModel(tokenizerJson);
    const path = join(folder, "model.gguf");
    await exportGguf(folder, path);
    const { magic, version, values, tensors } = readGguf(await readFile(path));
    expect([magic, version]).toEqual(["GGUF", 3]);
    expect(values).toMatchObject({
      "general.architecture": "qwen3",
      "qwen3.block_count": pairedConfig.layers,
      "qwen3.attention.head_count_kv": pairedConfig.keyValueHeads,
      "qwen3.rope.freq_base": pairedConfig.ropeTheta,
      "tokenizer.ggml.eos_token_id": 3,
      "tokenizer.ggml.merges": ["a b"],
      "tokenizer.chat_template": "{{ messages }}",
    });
    const [tokens, kinds] = [values["tokenizer.ggml.tokens"], values["tokenizer.ggml.token_type"]] as [
      string[],
      number[],
    ];
    expect(tokens.slice(0, 6)).toEqual(["a", "b", "ab", "<|im_end|>", "<tool_call>", "<unused_5>"]);
    expect(kinds.slice(0, 6)).toEqual([1, 1, 1, 3, 4, 5]);
    expect(tokens).toHaveLength(pairedConfig.vocabularySize);
    expect(values).not.toHaveProperty(["tokenizer.ggml.padding_token_id"]);

    const embedding = tensors.get("token_embd.weight")!;
    expect(embedding.shape).toEqual([pairedConfig.hiddenSize, pairedConfig.vocabularySize]);
    expect(embedding.values).toEqual(weights.slice(0, embedding.values.length));
    const count = [...tensors.values()].reduce((sum, tensor) => sum + tensor.values.length, 0);
    expect(count).toBe(weights.length);
    expect([...tensors.values()].every(({ type, offset }) => type === 0 && offset % 32 === 0)).toBe(true);
    expect(tensors.has("blk.1.ffn_gate.weight")).toBe(true);
  });

  test.each([
    [{ model: { type: "Unigram" } }, 'its model is "Unigram", expected "BPE"'],
    [
      { ...tokenizerJson, added_tokens: [{ id: 40, content: "x", special: true }] },
      "token 40 is beyond the 40 tokens of the model",
    ],
  ])("refuses %j", async (json, problem) => {
    await writeModel(json);
    await expect(exportGguf(folder, join(folder, "model.gguf"))).rejects.toThrow(problem);
  });

  test("names a file that is missing", async () => {
    await writeModel(tokenizerJson);
    await rm(join(folder, "tokenizer_config.json"));
    await expect(exportGguf(folder, join(folder, "model.gguf"))).rejects.toThrow(
      /Cannot read model file ".*tokenizer_config\.json"/,
    );
  });
});
