import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { byteCharacters } from "./byte-table.ts";
import * as gguf from "./gguf.test-helper.ts";
import { readGgufMetadata } from "./gguf-metadata.ts";
import { loadModelFolder } from "./load-tokenizer.ts";

let folder = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "gguf-"));
});
afterAll(async () => {
  await rm(folder, { recursive: true });
});

let files = 0;
const write = (bytes: Buffer): Promise<string> => gguf.writeGguf(join(folder, `${files++}.gguf`), bytes);
const usual = (): (readonly [string, Buffer])[] => gguf.byteLevelKeys(byteCharacters);
/** The usual keys with one of them replaced or, if `value` is null, left out. */
const withKey = (key: string, value: Buffer | null): (readonly [string, Buffer])[] => [
  ...usual().filter(([name]) => name !== key),
  ...(value === null ? [] : [[key, value] as const]),
];

describe("readGgufMetadata()", () => {
  test("reads values of every type", async () => {
    const numbers = Buffer.from(Float64Array.of(0.5, -2).buffer);
    const path = await write(
      gguf.ggufBytes([
        ["a", gguf.text("é")],
        ["b", gguf.flag(1)],
        ["c", gguf.id(4_000_000_000)],
        ["d", gguf.texts(["x", ""])],
        ["e", gguf.integers([-1, 7])],
        ["f", gguf.listOf(12, 2, numbers)],
        ["g", gguf.listOf(10, 1, gguf.u64(2n ** 40n))],
      ]),
    );
    expect([...(await readGgufMetadata(path))]).toEqual([
      ["a", "é"],
      ["b", true],
      ["c", 4_000_000_000],
      ["d", ["x", ""]],
      ["e", Int32Array.of(-1, 7)],
      ["f", Float64Array.of(0.5, -2)],
      ["g", Float64Array.of(2 ** 40)],
    ]);
  });

  test("reads metadata that are longer than the first part of the file that it reads", async () => {
    const long = "x".repeat(2 ** 23);
    const path = await write(gguf.ggufBytes([["a", gguf.text(long)], ["b", gguf.flag(0)]])); // prettier-ignore
    expect([...(await readGgufMetadata(path))]).toEqual([["a", long], ["b", false]]); // prettier-ignore
  });

  const huge = 2n ** 62n;
  test.each<[string, Buffer | (() => Buffer), string]>([
    ["nothing", Buffer.alloc(0), 'it begins with "", "GGUF" expected'],
    ["another format", Buffer.from("PK\u0003\u0004 and so on"), "expected"],
    ["an end in the head", Buffer.from("GGUF\u0003\0"), "it ends within its metadata, after 6 bytes"],
    ["an unknown version", gguf.ggufBytes([], { version: 9 }), "its version is 9, 2 or 3 expected"],
    ["big-endian numbers", gguf.ggufBytes([], { version: 0x0300_0000 }), "big-endian"],
    ["more keys than bytes", gguf.ggufBytes([], { count: huge }), "its number of keys is 4611686018427387904"],
    [
      "more keys than any model has",
      () => Buffer.concat([gguf.ggufBytes([], { count: 5000 }), Buffer.alloc(100_000)]),
      "it has 5000 keys, at most 4096 expected",
    ],
    [
      "a key that is longer than the file",
      Buffer.concat([gguf.ggufBytes([], { count: 1 }), gguf.u64(1000), Buffer.alloc(20)]),
      "its length of a key is 1000, which is more than 20 bytes can hold",
    ],
    ["an unknown type", gguf.ggufBytes([["a", Buffer.alloc(12, 99)]]), "of the unknown type"],
    ["a flag of 2", gguf.ggufBytes([["a", gguf.flag(2)]]), 'its key "a" is 2, 0 or 1 expected'],
    ["a key twice", gguf.ggufBytes([["a", gguf.flag(1)], ["a", gguf.flag(1)]]), 'its key "a" is there twice'], // prettier-ignore
    ["a list of lists", gguf.ggufBytes([["a", gguf.listOf(9, 1, gguf.integers([1]))]]), "a list of lists"],
    ["a list of too many texts", gguf.ggufBytes([["a", gguf.texts([], huge)]]), 'its length of "a" is 4611686018427387904'], // prettier-ignore
    ["a list of too many numbers", gguf.ggufBytes([["a", gguf.integers([], huge)]]), "than"],
    ["text that is not UTF-8", gguf.ggufBytes([["a", gguf.text(Buffer.of(0xc3, 0x28))]]), '"a" is not UTF-8'],
  ])("refuses %s", async (_, bytes, problem) => {
    const path = await write(typeof bytes === "function" ? bytes() : bytes);
    await expect(readGgufMetadata(path)).rejects.toMatchObject({
      name: "ConfigurationError",
      message: expect.stringContaining(problem) as string,
    });
  });

  test("refuses every beginning of a file, and no damaged byte does more than change values", async () => {
    const whole = gguf.ggufBytes(usual());
    for (const length of [5, 30, 100, 1000, whole.length - 1]) {
      await expect(readGgufMetadata(await write(whole.subarray(0, length)))).rejects.toThrow(
        "Cannot read the metadata",
      );
    }
    await fc.assert(
      fc.asyncProperty(fc.nat(whole.length - 1), fc.nat(255), async (at, byte) => {
        const damaged = Buffer.from(whole);
        damaged[at] = byte;
        const path = await write(damaged);
        const before = process.memoryUsage().arrayBuffers;
        await readGgufMetadata(path).catch((error: unknown) => {
          if ((error as Error).name !== "ConfigurationError") throw error;
        });
        expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(2 ** 24);
      }),
      { numRuns: 100 },
    );
  });

  test("says what is wrong with a path", async () => {
    await expect(readGgufMetadata(join(folder, "nowhere.gguf"))).rejects.toThrow(
      "there is no such file; pass the path",
    );
    await expect(readGgufMetadata(folder)).rejects.toThrow("it is a folder; pass the path");
  });
});

describe("loadModelFolder() of a GGUF file", () => {
  test("takes tokenizer, special tokens and template from the metadata", async () => {
    const model = await loadModelFolder(await write(gguf.ggufBytes(usual())));
    const { tokenizer } = model;
    expect(model.vocabularySize).toBe(261);
    expect(model.chatTemplate).toBe("{{ messages }}");
    expect([...model.specialTokens]).toEqual([["eos_token", "<|im_end|>"]]);
    expect([...tokenizer.encode("hell<|im_end|><tool_call>")]).toEqual([257, ...tokenizer.encode("l"), 259, 260]);
    expect(tokenizer.decode(tokenizer.encode("e\u0301 hello"))).toBe("é hello");
    expect([tokenizer.isSpecial(259), tokenizer.isSpecial(260)]).toEqual([true, false]);
  });

  test("takes the template for tools where there are several", async () => {
    const keys = [...usual(), ["tokenizer.chat_template.tool_use", gguf.text("tools")] as const];
    const model = await loadModelFolder(await write(gguf.ggufBytes(keys)));
    expect(model.chatTemplate).toBe("tools");
    expect([...model.namedTemplates]).toEqual([["default", "{{ messages }}"], ["tool_use", "tools"]]); // prettier-ignore
  });

  test("reads a file without an extension, as Ollama names them", async () => {
    const path = await gguf.writeGguf(join(folder, "sha256-0123"), gguf.ggufBytes(usual()));
    expect((await loadModelFolder(path)).vocabularySize).toBe(261);
  });

  test("encodes with the scores of SentencePiece, and falls back to bytes", async () => {
    const bytes = Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`);
    const pieces = ["\u2581", "h", "e", "l", "o", "he", "ll", "hell", "\u2581hello", "hello"];
    const tokens = ["<unk>", "<s>", "</s>", ...bytes, ...pieces];
    const types = tokens.map((_, id) => (id === 0 ? 2 : id < 3 ? 3 : id < 259 ? 6 : 1));
    const scores = tokens.map((_, id) => (id < 259 ? 0 : -(id - 259)));
    const keys: (readonly [string, Buffer])[] = [
      ["tokenizer.ggml.model", gguf.text("llama")],
      ["tokenizer.ggml.tokens", gguf.texts(tokens)],
      ["tokenizer.ggml.token_type", gguf.integers(types)],
      ["tokenizer.ggml.scores", gguf.floats(scores)],
      ["tokenizer.ggml.bos_token_id", gguf.id(1)],
      ["tokenizer.ggml.unknown_token_id", gguf.id(0)],
    ];
    const { tokenizer, specialTokens } = await loadModelFolder(await write(gguf.ggufBytes(keys)));
    const idOf = (piece: string): number => tokens.indexOf(piece);
    expect([...specialTokens]).toEqual([["bos_token", "<s>"], ["unk_token", "<unk>"]]); // prettier-ignore
    // "hell" and "o" are joined by no pair of tokens with a higher score than the parts of "he" and "ll".
    expect([...tokenizer.encode("hell o")]).toEqual(["\u2581", "hell", "\u2581", "o"].map(idOf));
    expect([...tokenizer.encode("<s>é")]).toEqual([1, idOf("\u2581"), idOf("<0xC3>"), idOf("<0xA9>")]);
    expect(tokenizer.decode(tokenizer.encode("hello é"))).toBe("hello é");
  });

  test.each<[string, string, Buffer | null, string]>([
    ["an unknown model", "tokenizer.ggml.model", gguf.text("bert"), 'tokenizer.ggml.model is "bert", known are gpt2, llama'], // prettier-ignore
    ["an unknown pre-tokenizer", "tokenizer.ggml.pre", gguf.text("klingon"), 'tokenizer.ggml.pre is "klingon", known are gpt-2, qwen2'], // prettier-ignore
    ["no pre-tokenizer", "tokenizer.ggml.pre", null, "tokenizer.ggml.pre is missing, text expected"],
    ["no tokens", "tokenizer.ggml.tokens", null, "tokenizer.ggml.tokens is missing, a list of texts expected"],
    ["numbers as tokens", "tokenizer.ggml.tokens", gguf.integers([1]), "tokenizer.ggml.tokens is a list, a list of texts expected"], // prettier-ignore
    ["a token twice", "tokenizer.ggml.tokens", gguf.texts(Array.from({ length: 261 }, () => "a")), 'its tokens 0 and 1 are both "a"'], // prettier-ignore
    [
      "types of other tokens",
      "tokenizer.ggml.token_type",
      gguf.integers([1, 1]),
      "has 2 elements, one for each of 261",
    ],
    ["a text as types", "tokenizer.ggml.token_type", gguf.text("1"), "is a string, a list of numbers expected"],
    ["an id that no token has", "tokenizer.ggml.eos_token_id", gguf.id(9999), "is 9999, an id below 261 expected"],
    ["merges of no tokens", "tokenizer.ggml.merges", gguf.texts(["q q"]), "model.merges[0]"],
    ["a template that is a number", "tokenizer.chat_template", gguf.id(1), "tokenizer.chat_template is a number, text expected"], // prettier-ignore
    ["a tokenizer.json that is not JSON", "tokenizer.huggingface.json", gguf.text("{"), "tokenizer.huggingface.json is not JSON"], // prettier-ignore
    ["a tokenizer.json that is none", "tokenizer.huggingface.json", gguf.text("[]"), "its content is an array"],
  ])("refuses %s", async (_, key, value, problem) => {
    const path = await write(gguf.ggufBytes(withKey(key, value)));
    await expect(loadModelFolder(path)).rejects.toMatchObject({
      name: expect.stringMatching(/ConfigurationError|UnsupportedTokenizerError/) as string,
      message: expect.stringContaining(problem) as string,
    });
  });
});
