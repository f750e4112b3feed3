import { readFileSync } from "node:fs";
import { join } from "node:path";

import { describe, expect, test } from "vitest";

import { sharedFolder } from "../../tests/conformance/shared-folder.ts";
import { ConfigurationError } from "../core/index.ts";
import { createReadableTokenizer } from "../tokenizers/index.ts";
import { chooseRenderer, familyOfChatTemplate, rendererFor } from "./choose-renderer.ts";
import { rendererFamilyNames } from "./families.ts";
import { createQwenRenderer } from "./qwen/qwen-renderer.ts";

const models = sharedFolder("models");
const tokenizer = createReadableTokenizer();

describe.skipIf(models === null)("chooseRenderer() on published templates (skipped without ../shared/models)", () => {
  const template = (family: string): string => readFileSync(join(models ?? "", family, "chat_template.jinja"), "utf8");

  test.each(rendererFamilyNames)("knows the template of %s, with either line end", (family) => {
    expect(familyOfChatTemplate(template(family))).toBe(family);
    expect(familyOfChatTemplate(`\n${template(family).replaceAll(/\r?\n/g, "\r\n")}\n`)).toBe(family);
  });

  test("makes the renderer of the family", () => {
    expect(chooseRenderer({ tokenizer, chatTemplate: template("qwen3") }).family).toBe("qwen3");
  });

  test("renders a template that differs in one character by itself, and names no family for it", () => {
    const changed = template("qwen3").replace("'</think>'", "'</Think>'");
    expect(chooseRenderer({ tokenizer, chatTemplate: changed }).family).toMatch(/^template-[0-9a-f]{16}$/);
    expect(() => familyOfChatTemplate(changed)).toThrow(ConfigurationError);
    expect(() => familyOfChatTemplate(changed)).toThrow(rendererFamilyNames.join(", "));
  });

  test('renders a known template by itself too, with renderWith: "template"', () => {
    const messages = [{ role: "user", content: "hi" } as const];
    const [native, byItself] = (["native", "template"] as const).map((renderWith) =>
      chooseRenderer({ tokenizer, chatTemplate: template("qwen3"), renderWith }),
    );
    expect(byItself!.family).not.toBe(native!.family);
    expect(byItself!.renderPrompt(messages, [])).toEqual(native!.renderPrompt(messages, []));
  });
});

describe("rendererFor()", () => {
  test("refuses an unknown family, naming those there are", () => {
    expect(() => rendererFor("gpt-9", tokenizer)).toThrow(ConfigurationError);
    expect(() => rendererFor("gpt-9", tokenizer)).toThrow(rendererFamilyNames.join(", "));
    expect(() => createQwenRenderer({ tokenizer, family: "gpt-9" })).toThrow("use one of qwen2.5-instruct, ");
  });

  test("refuses a tokenizer without the family's tokens", () => {
    const other = { ...tokenizer, name: "other", tokenId: () => null };
    expect(() => rendererFor("qwen3", other)).toThrow('tokenizer "other": it has no token "<|im_end|>"');
  });

  test("refuses to switch thinking where the template has no switch", () => {
    expect(() => rendererFor("qwen2.5-instruct", tokenizer, { thinking: false })).toThrow("Cannot switch thinking");
    expect(() => rendererFor("qwen3", tokenizer, { toolCallParser: "gpt-9" })).toThrow(ConfigurationError);
  });

  test("states its history policy and the tokens that stop sampling, the end token first", () => {
    const stops = ["<|im_end|>", "<|endoftext|>"].map((text) => tokenizer.tokenId(text));
    expect(rendererFor("qwen3", tokenizer)).toMatchObject({ historyPolicy: "keep-reasoning", stopTokenIds: stops });
    expect(rendererFor("qwen3", tokenizer, { historyPolicy: "branch" }).historyPolicy).toBe("branch");
    expect(rendererFor("qwen2.5-instruct", tokenizer, { historyPolicy: "branch" }).historyPolicy).toBe("append-only");
  });

  test("refuses a prompt with a token id that the model does not know, first prompts and bridges alike", () => {
    const vocabularySize = tokenizer.vocabularySize - 1;
    const renderer = rendererFor("qwen2.5-instruct", tokenizer, { vocabularySize });
    expect(renderer.vocabularySize).toBe(vocabularySize);
    expect(rendererFor("qwen2.5-instruct", tokenizer).vocabularySize).toBe(tokenizer.vocabularySize);
    const beyond = [{ role: "user", content: tokenizer.decode([vocabularySize]) }] as const;
    const history = [beyond[0], { role: "assistant", content: "!", reasoning: null, toolCalls: [] }] as const;
    const failure = { boundary: "renderer", code: "token-beyond-vocabulary", retryable: false };
    const lastAction = new Uint32Array([tokenizer.tokenId("<|im_end|>")!]);
    for (const render of [
      () => renderer.renderPrompt(beyond, []),
      () => renderer.bridge({ messages: history, tools: [], lastAction, newMessages: beyond }),
    ]) {
      expect(render).toThrow(expect.objectContaining({ failure: expect.objectContaining(failure) as unknown }));
      expect(render).toThrow(`is token ${vocabularySize} to tokenizer "readable"`);
    }
  });

  test("a prompt with thinking off ends in an empty think block", () => {
    const { text } = rendererFor("qwen3", tokenizer, { thinking: false }).renderPrompt(
      [{ role: "user", content: "hi" }],
      [],
    );
    expect(text).toBe("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
  });
});
