// The vocabulary of a real model as a GGUF file gives the ids of its tokenizer.json.

import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import fc from "fast-check";
import { describe, expect, test } from "vitest";

import { ggufBytes, integers, text, texts, writeGguf } from "../../src/tokenizers/gguf.test-helper.ts";
import { loadModelFolder } from "../../src/tokenizers/index.ts";
import { randomText } from "../../src/tokenizers/random-text.test-helper.ts";
import { sharedFolder } from "./shared-folder.ts";

const shared = sharedFolder("models", "qwen2.5-instruct");

type TokenizerJson = {
  readonly model: { readonly vocab: Record<string, number>; readonly merges: readonly (string | string[])[] };
  readonly added_tokens: readonly { readonly id: number; readonly content: string; readonly special: boolean }[];
};

describe.skipIf(shared === null)("GGUF of Qwen2.5's vocabulary (skipped without ../shared/models)", () => {
  test("gives the ids of the folder for 10,000 texts, and the text of every id", async () => {
    const json = JSON.parse(await readFile(join(shared!, "tokenizer.json"), "utf8")) as TokenizerJson;
    const tokens = Array.from({ length: 151_936 }, (_, index) => `[PAD${index}]`);
    const types = tokens.map(() => 5);
    for (const [token, id] of Object.entries(json.model.vocab)) [tokens[id], types[id]] = [token, 1];
    for (const { id, content, special } of json.added_tokens) [tokens[id], types[id]] = [content, special ? 3 : 4];
    const folder = await mkdtemp(join(tmpdir(), "gguf-"));
    try {
      const bytes = ggufBytes([
        ["tokenizer.ggml.model", text("gpt2")],
        ["tokenizer.ggml.pre", text("qwen2")],
        ["tokenizer.ggml.tokens", texts(tokens)],
        ["tokenizer.ggml.token_type", integers(types)],
        ["tokenizer.ggml.merges", texts(json.model.merges.map((merge) => [merge].flat().join(" ")))],
      ]);
      const ours = (await loadModelFolder(await writeGguf(join(folder, "qwen.gguf"), bytes))).tokenizer;
      const theirs = (await loadModelFolder(shared!)).tokenizer;
      const sampled = fc.sample(randomText, { seed: 1, numRuns: 10_000 });
      expect(sampled.filter((one) => ours.encode(one).join() !== theirs.encode(one).join())).toEqual([]);
      const known = [...Object.values(json.model.vocab), ...json.added_tokens.map(({ id }) => id)];
      const isSame = (id: number): boolean =>
        ours.decode([id]) === theirs.decode([id]) && ours.isSpecial(id) === theirs.isSpecial(id);
      expect(known.filter((id) => !isSame(id))).toEqual([]);
    } finally {
      await rm(folder, { recursive: true });
    }
  }, 120_000);
});
