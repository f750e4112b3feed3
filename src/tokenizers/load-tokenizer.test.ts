import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { ConfigurationError } from "../core/index.ts";
import { tokenizerJson } from "./fixtures.test-helper.ts";
import { createTokenizer } from "./create-tokenizer.ts";
import { loadModelFolder, loadTokenizer } from "./load-tokenizer.ts";

const qwen = JSON.stringify(tokenizerJson("qwen"));
let parent = "";

beforeAll(async () => {
  parent = await mkdtemp(join(tmpdir(), "model-folder-"));
});
afterAll(async () => {
  await rm(parent, { recursive: true });
});

async function folderOf(name: string, files: Readonly<Record<string, string>>): Promise<string> {
  const folder = join(parent, name);
  await mkdir(folder);
  for (const [file, text] of Object.entries(files)) await writeFile(join(folder, file), text);
  return folder;
}

describe("loadModelFolder()", () => {
  test("reads tokenizer, template, special tokens and configurations, without loss", async () => {
    const folder = await folderOf("whole", {
      "tokenizer.json": qwen,
      "tokenizer_config.json": `{"chat_template": "from config", "eos_token": "<|im_end|>", "bos_token": null,
        "pad_token": {"content": "<|endoftext|>"}, "add_bos_token": false, "model_max_length": 1000000000000000019884624838656}`,
      "config.json": `{"rope_theta": 1000000.0}`,
      "chat_template.jinja": "from file\n",
    });
    const model = await loadModelFolder(folder);
    expect(model.name).toBe("whole");
    expect(model.tokenizer.name).toBe("whole");
    expect(model.tokenizer.decode(model.tokenizer.encode("hello"))).toBe("hello");
    expect(model.chatTemplate).toBe("from file\n");
    expect([...model.specialTokens]).toEqual([["eos_token", "<|im_end|>"], ["pad_token", "<|endoftext|>"]]); // prettier-ignore
    expect(model.tokenizerConfig?.get("model_max_length")).toBe(1000000000000000019884624838656n);
    expect(model.config?.get("rope_theta")).toEqual({ value: 1000000 });
  });

  test("takes the template of tokenizer_config.json, of several that for tools, else the default", async () => {
    const one = await folderOf("one", { "tokenizer.json": qwen, "tokenizer_config.json": `{"chat_template": "only"}` });
    expect(await loadModelFolder(one)).toMatchObject({ chatTemplate: "only", namedTemplates: new Map() });
    const load = async (name: string, templates: readonly object[]) =>
      loadModelFolder(
        await folderOf(name, {
          "tokenizer.json": qwen,
          "tokenizer_config.json": JSON.stringify({ chat_template: templates }),
        }),
      );
    const [forTools, usual] = [{ name: "tool_use", template: "t" }, { name: "default", template: "d" }]; // prettier-ignore
    const several = await load("several", [usual, forTools]);
    expect(several.chatTemplate).toBe("t");
    expect(several.namedTemplates.get("default")).toBe("d");
    expect((await load("other", [{ name: "rag", template: "r" }, usual])).chatTemplate).toBe("d");
  });

  test.each<[string, string | null, number]>([
    ["no config.json", null, 647],
    ["no vocab_size", "{}", 647],
    ["padded rows", `{"vocab_size": 1024}`, 1024],
    ["fewer than the tokenizer has", `{"vocab_size": 640}`, 640],
    ["a multimodal model", `{"vocab_size": 7, "text_config": {"vocab_size": 2048}}`, 2048],
    ["a text_config without one", `{"vocab_size": 1024, "text_config": {}}`, 1024],
  ])("says which ids the model knows: %s", async (name, config, expected) => {
    const files = { "tokenizer.json": qwen, ...(config === null ? {} : { "config.json": config }) };
    const folder = await folderOf(`vocabulary ${name}`, files);
    expect((await loadModelFolder(folder)).vocabularySize).toBe(expected);
  });

  test.each(["0", "-1", "1.5", `"151936"`, "1e300", "1000000000000", "[]"])(
    "refuses a vocab_size of %s",
    async (size) => {
      const folder = await folderOf(`size ${size}`, {
        "tokenizer.json": qwen,
        "config.json": `{"vocab_size": ${size}}`,
      });
      await expect(loadModelFolder(folder)).rejects.toThrow(
        /config.json": its vocab_size is .* a whole number from 1 to/,
      );
    },
  );

  test("needs tokenizer.json alone", async () => {
    const model = await loadModelFolder(await folderOf("alone", { "tokenizer.json": qwen }));
    expect(model).toMatchObject({ chatTemplate: null, tokenizerConfig: null, config: null, specialTokens: new Map() });
  });
});

describe("loadTokenizer()", () => {
  test.each<[string, Record<string, string>, RegExp]>([
    ["empty", {}, /tokenizer.json": there is no such file/],
    [
      "pointer",
      { "tokenizer.json": "version https://git-lfs.github.com/spec/v1\n" },
      /tokenizer.json": it is a Git LFS pointer.*git lfs pull/,
    ],
    [
      "page",
      { "tokenizer.json": "<!doctype html>" },
      /tokenizer.json": it is not JSON \(it begins "<!doctype html>"\)/,
    ],
    ["list", { "tokenizer.json": "[]" }, /tokenizer.json": its content is an array, an object expected/],
    ["half", { "tokenizer.json": qwen.slice(0, 1000) }, /tokenizer.json": it is not JSON/],
    [
      "config",
      { "tokenizer.json": qwen, "tokenizer_config.json": "7" },
      /tokenizer_config.json": it holds no JSON object/,
    ],
  ])("refuses the folder %s and names the file", async (name, files, message) => {
    const loading = loadTokenizer(await folderOf(name, files));
    await expect(loading).rejects.toThrow(ConfigurationError);
    await expect(loading).rejects.toThrow(message);
  });

  const deep = (depth: number, inner: string): string => `${'{"a":'.repeat(depth)}${inner}${"}".repeat(depth)}`;
  const withPattern = (Regex: string): string =>
    JSON.stringify(tokenizerJson("qwen", { pre_tokenizer: { type: "Sequence", pretokenizers: [
      { type: "Split", pattern: { Regex }, behavior: "Isolated", invert: false },
      { type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: false },
    ] } })); // prettier-ignore

  test.each<[string, Record<string, string>, RegExp]>([
    [
      "a deep config.json",
      { "tokenizer.json": qwen, "config.json": deep(100_000, "1") },
      /config.json": it is not JSON/,
    ],
    [
      "a deep tokenizer_config.json",
      { "tokenizer.json": qwen, "tokenizer_config.json": deep(100_000, "1") },
      /tokenizer_config.json": it is not JSON/,
    ],
    [
      "a deep pre-tokenizer",
      {
        "tokenizer.json": qwen.replace(
          '"pre_tokenizer":',
          `"pre_tokenizer":${deep(50_000, "1").replaceAll('"a":', '"type":"Sequence","pretokenizers":[').replaceAll("}", "]}")},"x":`,
        ),
      },
      /tokenizer.json": it is nested too deep/,
    ],
    [
      "an id beyond all bounds",
      {
        "tokenizer.json": JSON.stringify({
          ...tokenizerJson("qwen"),
          model: { type: "WordLevel", unk_token: "a", vocab: { a: 4_000_000_000 } },
        }),
      },
      /model.vocab has the id 4000000000 for "a", expected an integer from 0/,
    ],
  ])("refuses %s", { timeout: 60_000 }, async (name, files, message) => {
    // prettier-ignore
    const loading = loadTokenizer(await folderOf(`hostile ${name}`, files));
    await expect(loading).rejects.toThrow(ConfigurationError);
    await expect(loading).rejects.toThrow(message);
  });

  test.each(["(?:a+)+!", "(?:a|a)*!", "a*a*a*a*a*a*!", "(?:\\p{L}+)*\\d"])(
    "refuses the pattern %s, which explodes",
    async (pattern) => {
      const definition = { tokenizerJson: JSON.parse(withPattern(pattern)) as unknown, tokenizerConfig: null };
      await expect(createTokenizer("hostile", definition, { timeoutMs: 200 })).rejects.toThrow(
        'Cannot read tokenizer "hostile": its regular expressions take too long on plain text',
      );
    },
  );

  test("bounds a pattern that explodes on other text than is tried, and takes nothing from one that does not", async () => {
    const load = (pattern: string) =>
      createTokenizer(
        "x",
        { tokenizerJson: JSON.parse(withPattern(pattern)) as unknown, tokenizerConfig: null },
        { timeoutMs: 2000 },
      );
    const tokenizer = await load("(?:z+)+!");
    expect(tokenizer.decode(tokenizer.encode("plain text"))).toBe("plain text");
    const failure = { boundary: "renderer", code: "tokenizer-too-slow" };
    const refusal = expect.objectContaining({
      failure: expect.objectContaining(failure) as unknown,
    }) as unknown as Error;
    expect(() => tokenizer.encode("z".repeat(5000))).toThrow(refusal);
    const text = "nobody has seen this pattern";
    expect([...tokenizer.encode(text)]).toEqual([...tokenizer.encodeLiteral(text, []).tokens]);
  });

  test("refuses what is not a folder, and a folder in the place of a file", async () => {
    await expect(loadTokenizer(join(parent, "nowhere"))).rejects.toThrow(
      /nowhere": there is no such folder; name a folder with/,
    );
    await writeFile(join(parent, "file"), "");
    await expect(loadTokenizer(join(parent, "file"))).rejects.toThrow(/file": it is a file/);
    await mkdir(join(parent, "nested", "tokenizer.json"), { recursive: true });
    await expect(loadTokenizer(join(parent, "nested"))).rejects.toThrow(/tokenizer.json": EISDIR/);
  });

  test("makes a tokenizer from parsed files", async () => {
    const tokenizer = await loadTokenizer({ tokenizerJson: tokenizerJson("qwen"), tokenizerConfig: null });
    expect(tokenizer.tokenId("<|im_end|>")).toBe(642);
  });
});
