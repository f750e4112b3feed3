// The renderers of the Qwen families by name, for programs that know which one they serve. Whatever comes from a model folder
// goes through `choose-renderer.ts`.

import { ConfigurationError, type Renderer, type Tokenizer } from "../../core/index.ts";
import { createTemplateRenderer, type RendererOptions } from "../template-renderer.ts";
import { qwenFamilies } from "./families.ts";

export type QwenRendererOptions = RendererOptions & {
  readonly tokenizer: Tokenizer;
  /** `qwen2.5-instruct`, `qwen3` or another of `families.ts`. */
  readonly family: string;
};

/** The renderer of a Qwen family. Throws a `ConfigurationError` for another family or an option that does not fit it. */
export function createQwenRenderer(options: QwenRendererOptions): Renderer {
  const { tokenizer, family: name, ...rest } = options;
  const family = qwenFamilies.find((candidate) => candidate.name === name);
  if (family !== undefined) return createTemplateRenderer(family, tokenizer, rest);
  throw new ConfigurationError(
    `Cannot make a Qwen renderer for "${name}": there is no such family; use one of ${qwenFamilies.map((known) => known.name).join(", ")}.`,
  );
}
