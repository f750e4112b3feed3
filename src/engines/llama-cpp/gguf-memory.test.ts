import { describe, expect, test } from "vitest";

import type { GgufMetadata } from "../../tokenizers/gguf-metadata.ts";
import { planMemory } from "./gguf-memory.ts";

/** The shape of a small model, as its file states it. */
const nano: GgufMetadata = new Map<string, string | number | readonly string[]>([
  ["general.architecture", "qwen3"],
  ["qwen3.block_count", 3],
  ["qwen3.context_length", 4096],
  ["qwen3.embedding_length", 128],
  ["qwen3.attention.head_count", 4],
  ["qwen3.attention.head_count_kv", 2],
  ["qwen3.attention.key_length", 32],
  ["qwen3.attention.value_length", 32],
  ["tokenizer.ggml.tokens", Array.from({ length: 1536 }, () => "")],
]);

describe("planMemory()", () => {
  const plan = (changed: Partial<Parameters<typeof planMemory>[0]>) =>
    planMemory({
      path: "nano.gguf",
      fileBytes: 1e6,
      metadata: nano,
      sequences: 8,
      contextTokens: 2048,
      freeBytes: 1e9,
      ...changed,
    });

  test("uses all sequences that are requested if they fit", () => {
    expect(plan({})).toEqual({ sequences: 8, notice: null });
  });

  test("uses fewer where memory is short, and says so", () => {
    const number = (key: string): number => Number(nano.get(`qwen3.${key}`));
    // Keys and values of 16 bits in each layer.
    const perToken = 2 * 2 * number("block_count") * number("attention.head_count_kv") * number("attention.key_length");
    const rows = 512 * 1536 * 4;
    const freeBytes = 1e6 + rows + 3.5 * 2048 * perToken;
    const { sequences, notice } = plan({ freeBytes });
    expect(sequences).toBe(3);
    expect(notice).toMatch(/^Note: 3 of 8 sequences fit into memory \(its weights take 1 MB, .* further episodes wait/);
    expect(() => plan({ freeBytes: freeBytes - 3 * 2048 * perToken })).toThrow(
      'Cannot open "nano.gguf": it does not fit into memory: its weights take 1 MB, rows of logits 4 MB, and each sequence of 2048 tokens',
    );
    expect(() => plan({ freeBytes: freeBytes - 3 * 2048 * perToken })).toThrow(
      "pass --max-context-tokens 1024 or less",
    );
    expect(() => plan({ freeBytes: 0 })).toThrow("use a smaller file, or free memory.");
  });

  test("plans nothing for a file that does not say the shape of its cache", () => {
    const metadata = new Map([["general.architecture", "unknown"]]);
    expect(plan({ metadata, freeBytes: 0 })).toEqual({ sequences: 8, notice: null });
  });
});
