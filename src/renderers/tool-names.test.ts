import { describe, expect, it } from "vitest";
import { formatsWithout } from "../parsers/index.ts";
import { rendererFor } from "./choose-renderer.ts";
import { rendererFamily } from "./families.ts";
import { familySamples } from "./family-samples.test-helper.ts";
import { byteTokenizer } from "./marker-tokenizer.test-helper.ts";
import { publishedRenderer, testedFamilies } from "./published-templates.test-helper.ts";
import { bundledChatTemplate } from "./bundled-template.ts";
import { unwritableNames } from "./tool-names.ts";

const plain = ["find_city", "a", "getWeather2", "mcp__server__tool"];
const odd = ["my-tool", "my.tool", "my/tool", "my:tool", "my tool", "2nd_tool", "größe", "import"];

describe("unwritableNames()", () => {
  it.each(testedFamilies)("of %s: those that its format has no place for, found by its own template", async (name) => {
    const { startToken, stopTokens, specialTokens } = rendererFamily(name);
    const { markers } = familySamples[name]!;
    const tokenizer = await byteTokenizer([
      startToken,
      ...stopTokens,
      ...markers,
      ...[...specialTokens.values()].map(String),
    ]);
    const renderer = publishedRenderer(name, tokenizer);
    const found = unwritableNames(renderer, tokenizer, [...plain, ...odd]);
    expect(found).toEqual(odd.filter((one) => formatsWithout(one).includes(renderer.parsers.toolCalls)));
  });

  it("knows a format from the calls of its models where the template writes another", async () => {
    const tokenizer = await byteTokenizer(["<|im_start|>", "<|im_end|>", "<|endoftext|>"]);
    const options = { chatTemplate: bundledChatTemplate, toolCallParser: "pythonic" };
    const renderer = rendererFor("qwen2.5-instruct", tokenizer, options);
    expect(unwritableNames(renderer, tokenizer, [...plain, ...odd])).toEqual(odd.filter((one) => one !== "größe"));
  });
});
