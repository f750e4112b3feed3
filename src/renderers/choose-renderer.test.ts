import { describe, expect, test } from "vitest";

import { addAllFormats } from "../parsers/all-formats.ts";
import { ConfigurationError } from "../core/index.ts";
import { createReadableTokenizer } from "../tokenizers/index.ts";
import { chooseRenderer, createQwenRenderer, rendererFor } from "./choose-renderer.ts";
import { familyFromTemplate } from "./detection/detect-family.ts";
import { familyOfChatTemplate, rendererFamily, rendererFamilyNames } from "./families.ts";
import {
  familiesAtHand,
  models,
  publishedRenderer,
  publishedTemplate as template,
} from "./published-templates.test-helper.ts";
import { createTemplateRenderer } from "./template-renderer.ts";
import { bundledChatTemplate } from "./bundled-template.ts";

addAllFormats();

const tokenizer = createReadableTokenizer();

describe.skipIf(models === null)("chooseRenderer() on published templates (skipped without ../shared/models)", () => {
  test.each(familiesAtHand)("knows the template of %s, with either line end", (family) => {
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

  test("a known template renders the same where its family is detected", () => {
    const messages = [{ role: "user", content: "hi" } as const];
    const chatTemplate = template("qwen3");
    const detected = createTemplateRenderer(familyFromTemplate({ tokenizer, chatTemplate }), tokenizer, {
      chatTemplate,
    });
    const known = chooseRenderer({ tokenizer, chatTemplate });
    expect([known.family, detected.historyPolicy]).toEqual(["qwen3", "branch"]);
    expect(detected.renderPrompt(messages, [])).toEqual(known.renderPrompt(messages, []));
  });

  test("a named family takes a template that is not known, with its own facts", () => {
    const chatTemplate = template("qwen3").replace("'</think>'", "'</Think>'");
    const renderer = rendererFor("qwen3", tokenizer, { chatTemplate });
    expect([renderer.family, renderer.historyPolicy]).toEqual(["qwen3", "keep-reasoning"]);
  });

  test("a prompt with thinking off ends in an empty think block", () => {
    const { text } = publishedRenderer("qwen3", tokenizer, { thinking: false }).renderPrompt(
      [{ role: "user", content: "hi" }],
      [],
    );
    expect(text).toBe("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
  });
});

describe("rendererFor()", () => {
  test("refuses an unknown family, naming those there are", () => {
    expect(() => rendererFor("gpt-9", tokenizer)).toThrow(ConfigurationError);
    expect(() => rendererFor("gpt-9", tokenizer)).toThrow(rendererFamilyNames.join(", "));
    expect(() => createQwenRenderer({ tokenizer, family: "gpt-9" })).toThrow("use one of qwen2.5-instruct, ");
  });

  test.each(rendererFamilyNames)(
    "%s without a template: the bundled one, or an error that names the file",
    (family) => {
      if (rendererFamily(family).isBundledFormat) {
        expect(rendererFor(family, tokenizer).family).toBe(family);
      } else {
        expect(() => rendererFor(family, tokenizer)).toThrow(ConfigurationError);
        expect(() => rendererFor(family, tokenizer)).toThrow(
          "chat_template.jinja, or chat_template in tokenizer_config.json",
        );
      }
    },
  );

  test("refuses a tokenizer without the family's tokens", () => {
    const other = { ...tokenizer, name: "other", tokenId: () => null };
    expect(() => rendererFor("qwen3", other, { chatTemplate: bundledChatTemplate })).toThrow(
      'tokenizer "other": it has no token "<|im_end|>"',
    );
  });

  test("refuses to switch thinking where the template has no switch", () => {
    expect(() => rendererFor("qwen2.5-instruct", tokenizer, { thinking: false })).toThrow("Cannot switch thinking");
    expect(() => rendererFor("qwen2.5-instruct", tokenizer, { toolCallParser: "gpt-9" })).toThrow(ConfigurationError);
  });

  test("states its history policy and the tokens that stop sampling, the end token first", () => {
    const stops = ["<|im_end|>", "<|endoftext|>"].map((text) => tokenizer.tokenId(text));
    const qwen3 = { chatTemplate: bundledChatTemplate };
    expect(rendererFor("qwen3", tokenizer, qwen3)).toMatchObject({
      historyPolicy: "keep-reasoning",
      stopTokenIds: stops,
    });
    expect(rendererFor("qwen3", tokenizer, { ...qwen3, historyPolicy: "branch" }).historyPolicy).toBe("branch");
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
      expect(render).toThrow(`is token ${vocabularySize} of tokenizer "readable"`);
    }
  });
});
