import fc from "fast-check";
import { describe, expect, test } from "vitest";

import { createReadableTokenizer } from "./readable-tokenizer.ts";

const tokenizer = createReadableTokenizer();

describe("createReadableTokenizer()", () => {
  test("decode(encode(text)) is the text, for every well-formed text", () => {
    const text = fc.array(
      fc.oneof(
        fc.string({ unit: "binary" }),
        fc.constantFrom(
          "<|im_start|>",
          "<|im_end|>",
          "</think>",
          "<tool_call>",
          '{"name": "get_order", ',
          "\r\n",
          " the",
        ),
      ),
    );
    fc.assert(
      fc.property(text, (parts) => {
        const joined = parts.join("");
        expect(tokenizer.decode(tokenizer.encode(joined))).toBe(joined);
      }),
      { seed: 1, numRuns: 200 },
    );
  });

  test("common words, JSON pieces and markers are single tokens; the rest is one token per byte", () => {
    const text = '<|im_start|>assistant\n<tool_call>\n{"name": "find_order", "arguments": {}}\n</tool_call><|im_end|>';
    const shown = Array.from(tokenizer.encode(text), (id) => tokenizer.decode([id]));
    expect(shown).toEqual([
      "<|im_start|>", "assistant", "\n", "<tool_call>", "\n", '{"', "name", '":', ' "', "find", "_order", '",', ' "',
      "arguments", '":', " {}", "}\n", "</tool_call>", "<|im_end|>",
    ]); // prettier-ignore
    expect([...tokenizer.encode("Żq")]).toEqual([0xc5, 0xbb, "q".charCodeAt(0)]);
  });
});
