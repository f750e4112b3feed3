import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import {
  readCheckpoint,
  writeCheckpoint,
  readSafetensors,
  roundToBrainFloats,
  writeSafetensors,
} from "./checkpoint.ts";
import { readModelConfig, toHuggingFaceConfig } from "./model-config.ts";
import { pairedConfig, tinyConfig, wildWeights } from "./tiny-model.test-helper.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "checkpoint-"));
});
afterAll(async () => {
  await rm(folder, { recursive: true });
});

test("writeCheckpoint() writes what readCheckpoint() reads, to the bit", async () => {
  const weights = wildWeights(pairedConfig, 1);
  await writeCheckpoint(folder, { config: pairedConfig, weights }, { endTokenId: 2 });
  expect(await readCheckpoint(folder)).toEqual({ config: pairedConfig, weights });
  expect(JSON.parse(await readFile(join(folder, "config.json"), "utf8"))).toMatchObject({
    architectures: ["Qwen3ForCausalLM"],
    eos_token_id: 2,
  });
});

test("writeCheckpoint() in BF16 writes half as much, and what it gives back is rounded to the nearest", async () => {
  const weights = wildWeights(pairedConfig, 1);
  await writeCheckpoint(folder, { config: pairedConfig, weights }, { dtype: "BF16" });
  const { weights: read } = await readCheckpoint(folder);
  expect(read).toEqual(roundToBrainFloats(weights));
  expect((await readFile(join(folder, "model.safetensors"))).length).toBeLessThan(weights.byteLength * 0.6);
  expect(JSON.parse(await readFile(join(folder, "config.json"), "utf8"))).toMatchObject({ torch_dtype: "bfloat16" });
  const worst = Math.max(...weights.map((value, index) => Math.abs(read[index]! / value - 1)));
  expect(worst).toBeLessThanOrEqual(2 ** -8);
});

test("roundToBrainFloats() goes to the nearest, ties to even, and keeps what is not a number", () => {
  const [one, next, step] = [1, 1 + 2 ** -7, 2 ** -8];
  const values = Float32Array.of(one + step * 0.99, one + step, one + step * 1.01, next + step, -Infinity, NaN, -0);
  expect([...roundToBrainFloats(values)]).toEqual([one, one, next, next + 2 * step, -Infinity, NaN, -0]);
});

test("readCheckpoint() names the tensor that does not fit config.json", async () => {
  await writeCheckpoint(folder, { config: tinyConfig, weights: wildWeights(tinyConfig, 1) });
  await writeFile(join(folder, "config.json"), JSON.stringify(toHuggingFaceConfig(pairedConfig)));
  await expect(readCheckpoint(folder)).rejects.toThrow(
    /tensor "model\.layers\.0\.self_attn\.q_proj\.weight" has the shape \[48, 32\], but config.json expects \[64, 32\]/,
  );
});

test.each([NaN, Infinity, -Infinity])(
  "readCheckpoint() refuses a diverged checkpoint by its tensor: %f",
  async (value) => {
    const weights = wildWeights(tinyConfig, 1);
    weights[3] = value;
    await writeCheckpoint(folder, { config: tinyConfig, weights });
    await expect(readCheckpoint(folder)).rejects.toThrow(
      `tensor "model.embed_tokens.weight" has ${value} at place 3, expected finite numbers`,
    );
  },
);

test("readCheckpoint() names a file that is missing", async () => {
  await expect(readCheckpoint(join(folder, "nowhere"))).rejects.toThrow(/Cannot read model file ".*config\.json"/);
});

describe("a config.json or a weights file that lies is refused before memory is taken for it", () => {
  const huge = { ...toHuggingFaceConfig(tinyConfig) };

  test.each([
    [{ num_hidden_layers: 1_000_000_000 }, "layers is 1000000000, expected at most 1024"],
    [{ vocab_size: 2 ** 40 }, "vocabularySize is 1099511627776, expected at most 1048576"],
    [{ hidden_size: 2 ** 40 }, "it describes more than 1073741824 numbers"],
    [{ intermediate_size: 2 ** 40 }, "it describes more than 1073741824 numbers"],
    [{ max_position_embeddings: 2 ** 40 }, "it describes more than 1073741824 numbers"],
    [{ num_attention_heads: 2 ** 30, num_key_value_heads: 2 ** 30 }, "it describes more than 1073741824 numbers"],
  ])("%j", (changes, problem) => {
    expect(() => readModelConfig({ ...huge, ...changes }, "config.json")).toThrow(problem);
  });

  const file = (header: unknown, bytes = 64): Uint8Array => {
    const json = new TextEncoder().encode(typeof header === "string" ? header : JSON.stringify(header));
    const whole = new Uint8Array(8 + json.length + bytes);
    new DataView(whole.buffer).setBigUint64(0, BigInt(json.length), true);
    whole.set(json, 8);
    return whole;
  };
  const tensor = { dtype: "F32", shape: [16], data_offsets: [0, 64] };

  test.each([
    ["no object", null, "its header is not a JSON object"],
    ["a list", [], "its header is not a JSON object"],
    ["a tensor that is none", { a: null }, 'tensor "a" is described by no JSON object'],
    ["tensors that share bytes", { a: tensor, b: tensor }, 'tensor "b" lies where another one does'],
    ["a shape of other things", { a: { ...tensor, shape: [{}] } }, 'the offsets of tensor "a" do not fit'],
    ["a shape with a fraction", { a: { ...tensor, shape: [0.5, 32] } }, 'the offsets of tensor "a" do not fit'],
    ["a shape that overflows", { a: { ...tensor, shape: [2 ** 52, 2 ** 52] } }, 'the offsets of tensor "a" do not fit'],
    ["offsets beyond the file", { a: { ...tensor, data_offsets: [64, 128] } }, 'the offsets of tensor "a" do not fit'],
    ["deep JSON", `${"[".repeat(100_000)}${"]".repeat(100_000)}`, "its header is not a JSON object"],
  ])("a header with %s", (_, header, problem) => {
    expect(() => readSafetensors(file(header), "m")).toThrow(problem);
  });

  test("a header that is longer than the file", () => {
    const bytes = file({ a: tensor });
    new DataView(bytes.buffer).setBigUint64(0, 2n ** 63n, true);
    expect(() => readSafetensors(bytes, "m")).toThrow("its header is truncated");
  });
});

describe("readModelConfig()", () => {
  const json = toHuggingFaceConfig(tinyConfig);

  test("reads what toHuggingFaceConfig() writes", () => {
    expect(readModelConfig(json, "config.json")).toEqual(tinyConfig);
  });

  test("reads what transformers 5 writes: rope_parameters in place of rope_theta", () => {
    const { rope_theta: theta, rope_scaling: _none, ...rest } = json as Record<string, unknown>;
    const written = { ...rest, rope_parameters: { rope_theta: theta, rope_type: "default" } };
    expect(readModelConfig(written, "config.json")).toEqual(tinyConfig);
    const scaled = { ...rest, rope_parameters: { rope_theta: theta, rope_type: "yarn" } };
    expect(() => readModelConfig(scaled, "config.json")).toThrow('rope_parameters.rope_type is "yarn"');
    expect(() => readModelConfig(rest, "config.json")).toThrow("rope_theta is missing, a positive number expected");
  });

  test.each([
    [{ model_type: "llama" }, 'model_type is "llama", expected "qwen3"'],
    [{ tie_word_embeddings: false }, "tie_word_embeddings is not true"],
    [{ rope_scaling: { type: "yarn" } }, 'rope_scaling is {"type":"yarn"}, expected null'],
    [{ head_dim: undefined }, "head_dim is missing, a positive number expected"],
    [{ vocab_size: 41 }, "vocabularySize is 41, expected a multiple of 8"],
    [{ head_dim: 24 }, "headSize is 24, expected a multiple of 16"],
    [{ num_attention_heads: 3, num_key_value_heads: 2 }, "3 heads cannot share 2 heads of keys and values evenly"],
  ])("refuses %j", (patch, problem) => {
    expect(() => readModelConfig({ ...json, ...patch }, "config.json")).toThrow(problem);
  });
});

describe("readSafetensors()", () => {
  /** A file with one tensor of this type. */
  function file(dtype: string, shape: readonly number[], bytes: Uint8Array): Uint8Array {
    const header = JSON.stringify({ x: { dtype, shape, data_offsets: [0, bytes.length] } });
    const head = new Uint8Array(8);
    new DataView(head.buffer).setBigUint64(0, BigInt(header.length), true);
    return Buffer.concat([head, Buffer.from(header), bytes]);
  }

  test("widens floats of 16 bits", () => {
    const brain = new Uint8Array(Uint16Array.from([0x3f80, 0xc000, 0x7f80]).buffer);
    expect([...readSafetensors(file("BF16", [3], brain), "x").get("x")!.values]).toEqual([1, -2, Infinity]);
    const half = new Uint8Array(Uint16Array.from([0x3c00, 0xc000, 0x0001, 0x7bff]).buffer);
    expect([...readSafetensors(file("F16", [4], half), "x").get("x")!.values]).toEqual([1, -2, 2 ** -24, 65_504]);
  });

  test.each([
    ["a truncated header", Uint8Array.of(9, 0, 0), "its header is truncated"],
    ["another type", file("I8", [1], Uint8Array.of(1)), 'tensor "x" is of type I8'],
    ["offsets that do not fit", file("F32", [2], new Uint8Array(4)), 'the offsets of tensor "x" do not fit'],
    [
      "a truncated tensor",
      writeSafetensors(new Map([["x", { shape: [2], values: new Float32Array(2) }]])).subarray(0, -1),
      'the offsets of tensor "x" do not fit',
    ],
  ])("refuses %s", (_, bytes, problem) => {
    expect(() => readSafetensors(bytes, "model.safetensors")).toThrow(problem);
  });
});
