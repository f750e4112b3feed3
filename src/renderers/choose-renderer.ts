// Which renderer fits a model: by the text of its chat template, never by its name. A template that differs in one
// character may render differently, so one that is not known is rendered by its own Jinja program, never by a native
// renderer that comes close; a family can always be named.

import { ConfigurationError, type Renderer, type Tokenizer } from "../core/index.ts";
import { type FallbackFamilyOptions, familyFromTemplate } from "./fallback/fallback-family.ts";
import { withKnowledge } from "./fallback/known-templates.ts";
import { rendererFamily, rendererFamilyNames } from "./families.ts";
import { createTemplateRenderer, type RendererOptions } from "./template-renderer.ts";
import { templateFingerprint } from "./template-fingerprint.ts";

/** Fingerprints of published chat templates (see `template-fingerprint.ts`). */
const familyOfTemplate: ReadonlyMap<string, string> = new Map([
  ["30944e76e21d167d", "qwen2.5-instruct"],
  ["65b40f304f91638b", "qwen3-instruct-2507"],
  // Of the models that this package trains: the same format, written anew.
  ["1c4c6e4edbaaeec9", "qwen3-instruct-2507"],
  ["6668575de86e1aae", "qwen3"],
  ["4e73afe01bae85c9", "qwen3-rev2"],
  ["ac6c595863fdcd2b", "qwen3-miles-fixed"],
  ["ad7270a9190b05c8", "qwen3-skyrl-acc-thinking"],
  ["14958839f75cb6eb", "qwen3-coder"],
  ["b5a3b51b13dff0a0", "qwen3.5"],
  ["90a33a1a188655e9", "qwq-32b"],
  ["6cfeb92a6436cd38", "llama-3.1-instruct"],
  ["7a0e4fcdd113cf54", "llama-3.2-instruct"],
  ["836d83f1cdfcaaf3", "hermes-3-tool-use"],
  ["0cab2dca160a8949", "glm-4.5"],
  ["016c9891aa073350", "glm-4.6"],
  ["639365fdea05c09e", "glm-4.7-flash"],
  ["5d5cd143f364921e", "kimi-k2"],
  ["e14902e2ccc522e0", "kimi-k2-thinking"],
  ["8980afae8fe1e4a6", "deepseek-v3.1"],
  ["b4b163afc32c40cf", "deepseek-v3.1-sglang-tools"],
  ["63a740cf1f3dc6a1", "deepseek-v3-sglang-tools"],
  ["15bb4ee75f2e9581", "deepseek-r1"],
  ["a231deb8d1331f27", "smollm3"],
  ["ab396a6522c2e304", "gpt-oss"],
  ["02a9cc9890a41233", "minimax-m3"],
]);

/** The renderer of a family by name. Throws a `ConfigurationError` for an unknown name or an option that does not fit. */
export function rendererFor(family: string, tokenizer: Tokenizer, options: RendererOptions = {}): Renderer {
  return createTemplateRenderer(rendererFamily(family), tokenizer, options);
}

export type ChooseRendererOptions = RendererOptions &
  FallbackFamilyOptions & {
    /**
     * "native": a native renderer where there is one, else the template itself with what is known of it. "template": always
     * the template itself, as one that nobody knows, for comparing the two. Default "native".
     */
    readonly renderWith?: "native" | "template";
  };

/** The renderer for a model's own chat template. Throws a `ConfigurationError` for a template that no renderer can be made of. */
export function chooseRenderer(options: ChooseRendererOptions): Renderer {
  const family = options.renderWith === "template" ? null : knownFamily(options.chatTemplate);
  if (family !== null) return rendererFor(family, options.tokenizer, options);
  const found = familyFromTemplate(options);
  const fallback = options.renderWith === "template" ? found : withKnowledge(found, options.chatTemplate);
  return createTemplateRenderer(fallback, options.tokenizer, options);
}

/** The native family whose published chat template this is. Throws a `ConfigurationError` for any other template. */
export function familyOfChatTemplate(chatTemplate: string): string {
  const family = knownFamily(chatTemplate);
  if (family !== null) return family;
  throw new ConfigurationError(
    `Cannot name a model family: the chat template (fingerprint ${templateFingerprint(chatTemplate)}) is none that is ` +
      `known; name the family whose template it follows, one of ${rendererFamilyNames.join(", ")}.`,
  );
}

function knownFamily(chatTemplate: string): string | null {
  return familyOfTemplate.get(templateFingerprint(chatTemplate)) ?? null;
}
