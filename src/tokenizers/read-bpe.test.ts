import { describe, expect, test } from "vitest";

import { ConfigurationError } from "../core/index.ts";
import { ByteLevelBpe } from "./byte-level-bpe.ts";
import { tokenizerJson } from "./fixtures.test-helper.ts";
import { readBpe, NotByteLevelBpe } from "./read-bpe.ts";

const { vocab, merges } = tokenizerJson("qwen")["model"] as { vocab: Record<string, number>; merges: string[] };

const split = (part: object): object => ({
  pre_tokenizer: {
    type: "Sequence",
    pretokenizers: [part, { type: "ByteLevel", add_prefix_space: false, use_regex: false }],
  },
});

describe("readBpe()", () => {
  test.each<[string, Record<string, unknown>, RegExp]>([
    ["a model that is not an object", { model: undefined }, /model is missing/],
    ["a negative id", { model: { vocab: { ...vocab, x: -1 } } }, /the id -1 for "x"/],
    ["a fraction as id", { model: { vocab: { ...vocab, x: 1.5 } } }, /the id 1.5 for "x"/],
    [
      "an id that would fill the memory",
      { model: { vocab: { ...vocab, x: 4e9 } } },
      /the id 4000000000 for "x", expected an integer from 0/,
    ],
    ["an id given twice", { model: { vocab: { ...vocab, xyz: 300 } } }, /the id 300 to "xyz" and to another token/],
    ["a vocabulary that is a list", { model: { vocab: [] } }, /model.vocab is an array, an object expected/],
    ["merges that are missing", { model: { merges: undefined } }, /model.merges is missing, an array expected/],
    ["a merge of one part", { model: { merges: [...merges, "ab"] } }, /model.merges\[384\] is "ab"/],
    ["a merge of three parts", { model: { merges: [["a", "b", "c"]] } }, /model.merges\[0\] is an array/],
    ["a merge of unknown tokens", { model: { merges: ["zq qz"] } }, /joins "zq" and "qz", which needs a token/],
    ["added tokens that are not a list", { added_tokens: "x" }, /added_tokens is "x", an array expected/],
    ["an added token without content", { added_tokens: [{ id: 1 }] }, /added_tokens\[0\].content is missing/],
    [
      "a flag that is a number",
      { added_tokens: [{ content: "x", special: 1 }] },
      /added_tokens\[0\].special is 1, true or false/,
    ],
    [
      "a Split without pattern",
      split({ type: "Split" }) as Record<string, unknown>,
      /pre_tokenizer.pattern is missing/,
    ],
  ])("refuses %s and names file and field", (_, patch, message) => {
    const definition = {
      ...tokenizerJson("qwen", patch),
      ...("model" in patch && patch["model"] === undefined ? patch : {}),
    };
    expect(() => readBpe(definition, "model/tokenizer.json")).toThrow(ConfigurationError);
    expect(() => readBpe(definition, "model/tokenizer.json")).toThrow(message);
    expect(() => readBpe(definition, "model/tokenizer.json")).toThrow('Cannot read tokenizer "model/tokenizer.json": ');
  });

  test.each([null, 7, "text", []])("refuses %j, which is not a tokenizer.json at all", (parsed) => {
    expect(() => readBpe(parsed, "x")).toThrow(ConfigurationError);
  });

  test.each<[string, Record<string, unknown>]>([
    ["Unigram", { model: { type: "Unigram" } }],
    ["a suffix that ends words", { model: { end_of_word_suffix: "</w>" } }],
    ["dropout", { model: { dropout: 0.1 } }],
    ["another decoder", { decoder: { type: "Metaspace" } }],
    ["no decoder", { decoder: null }],
    ["no pre-tokenizer", { pre_tokenizer: null }],
    ["a prefix space", { pre_tokenizer: { type: "ByteLevel", add_prefix_space: true } }],
    ["an unknown pre-tokenizer", split({ type: "Whitespace" }) as Record<string, unknown>],
    ["an unknown normalizer", { normalizer: { type: "Lowercase" } }],
    [
      "matches merged with their neighbours",
      split({ type: "Split", pattern: { String: " " }, behavior: "MergedWithNext" }) as Record<string, unknown>,
    ],
    [
      "a pattern it does not read",
      split({ type: "Split", pattern: { Regex: "\\w+" }, behavior: "Isolated" }) as Record<string, unknown>,
    ],
    ["a vocabulary without some bytes", { model: { vocab: { a: 0 } } }],
  ])("leaves %s to the code for all kinds", (_, patch) => {
    expect(() => readBpe(tokenizerJson("qwen", patch), "x")).toThrow(NotByteLevelBpe);
  });

  test("gives added tokens the ids Hugging Face gives them, whatever the file says", () => {
    const added = (content: string, id: number): object => ({ id, content, special: false, normalized: false });
    const definition = tokenizerJson("qwen", {
      added_tokens: [added("<a>", 9000), added("er", 7), added("<b>", 3), added("", 4)],
    });
    const tokenizer = new ByteLevelBpe("x", readBpe(definition, "x"));
    expect([tokenizer.tokenId("<a>"), tokenizer.tokenId("<b>"), tokenizer.vocabularySize]).toEqual([640, 641, 642]);
    expect(tokenizer.tokenId("er")).toBe(vocab["er"]);
  });

  test('names like "constructor" and "__proto__" are tokens like any other', () => {
    const added = ["__proto__", "constructor", "toString"].map((content, id) => ({ id, content }));
    const tokenizer = new ByteLevelBpe("x", readBpe(tokenizerJson("qwen", { added_tokens: added }), "x"));
    expect([...tokenizer.encode("__proto__constructortoString")]).toEqual([640, 641, 642]);
  });
});
