// Chooses the facts that go with a model's chat template: by its text, never by the model's name.
// For a template that is not in the table the facts are detected; a family can always be named.

import { ConfigurationError, type Renderer, type Tokenizer } from "../core/index.ts";
import { type DetectFamilyOptions, familyFromTemplate } from "./detection/detect-family.ts";
import { familyNamed, knownFamily, rendererFamilyNames } from "./families.ts";
import { createTemplateRenderer, type RendererOptions } from "./template-renderer.ts";
import { remedyFor } from "../lib/nearest.ts";

/**
 * The renderer of a family by name, with the chat template of the options. Throws a `ConfigurationError` for an unknown name, an
 * option that does not fit, or a missing template.
 */
export function rendererFor(family: string, tokenizer: Tokenizer, options: RendererOptions = {}): Renderer {
  return createTemplateRenderer(familyNamed(family, options.chatTemplate), tokenizer, options);
}

export type ChooseRendererOptions = RendererOptions & DetectFamilyOptions;

/** The renderer for a model's own chat template. Throws a `ConfigurationError` for a template that no renderer can be made of. */
export function chooseRenderer(options: ChooseRendererOptions): Renderer {
  const family = knownFamily(options.chatTemplate) ?? familyFromTemplate(options);
  return createTemplateRenderer(family, options.tokenizer, options);
}

export type QwenRendererOptions = RendererOptions & {
  readonly tokenizer: Tokenizer;
  /** `qwen2.5-instruct`, `qwen3` or another Qwen family of the table. */
  readonly family: string;
};

/**
 * The renderer of a Qwen family, for programs that know which one they serve. Throws a `ConfigurationError` for another family, an
 * option that does not fit it, or a missing template.
 */
export function createQwenRenderer({ tokenizer, family, ...options }: QwenRendererOptions): Renderer {
  const names = rendererFamilyNames.filter((name) => /^qw(?:en|q)/.test(name));
  if (names.includes(family)) return rendererFor(family, tokenizer, options);
  throw new ConfigurationError(
    `Cannot create a Qwen renderer for "${family}": there is no such family; ${remedyFor(family, names)}`,
  );
}
