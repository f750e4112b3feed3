// The renderers without the formats of tool calls, the detection of families and the audit of
// templates: `loadRenderer` loads the parts that one renderer needs. The other functions find only
// parts that are loaded.

import type { Renderer } from "../core/index.ts";
import { isResponseTemplate, loadReasoningParser, loadToolCallParser } from "../parsers/on-demand.ts";
import type { DetectFamilyOptions } from "./detection/detect-family.ts";
import { familyNamed, knownFamily } from "./families.ts";
import { createTemplateRenderer, type RendererOptions } from "./template-renderer.ts";

export { bundledChatTemplate, bundledToolSentence } from "./bundled-template.ts";
export {
  type ChatTemplate,
  ChatTemplateError,
  type PromptEncoder,
  type TemplateContext,
  type TemplateInput,
  type TemplateSegment,
  type TemplateSource,
} from "./chat-template.ts";
export { segmentsText } from "./segments.ts";
export { type EncoderRow, encoderOf } from "./encoders/encoder-table.ts";
export { familyOfChatTemplate, rendererFamily, rendererFamilyNames } from "./families.ts";
export { compileChatTemplate } from "./jinja/compile-chat-template.ts";
export type { PromptEdit } from "./segments.ts";
export { type RendererFamily, wireMessages } from "./renderer-family.ts";
export { unwritableNames } from "./tool-names.ts";
export { createTemplateRenderer, type RendererOptions } from "./template-renderer.ts";

/**
 * The renderer of the named family or, without a name, the one that `chooseRenderer` chooses. It loads the parsers that this renderer
 * needs: those of its family, or all of them to detect the family of an unknown template. Rejects with a `ConfigurationError` where
 * `rendererFor` and `chooseRenderer` throw one.
 */
export async function loadRenderer(
  family: string | null,
  options: RendererOptions & DetectFamilyOptions,
): Promise<Renderer> {
  const known = family === null ? knownFamily(options.chatTemplate) : familyNamed(family, options.chatTemplate);
  // Repair also carries out calls in the formats of other families.
  if (known === null || options.repair === true) (await import("../parsers/all-formats.ts")).addAllFormats();
  const { toolCallParser, reasoningParser } = options;
  const chosenReasoning = reasoningParser === "none" ? null : reasoningParser;
  // A response template has a loader of its own.
  const named = (...names: readonly (string | null | undefined)[]): string[] =>
    names.filter((name) => typeof name === "string").filter((name) => !isResponseTemplate(name));
  // The family's own parsers read its history, even if others read its actions.
  const calls = named(known?.toolCallParser, toolCallParser);
  const reasoning = named(known?.reasoningParser, chosenReasoning);
  await Promise.all([...calls.map(loadToolCallParser), ...reasoning.map(loadReasoningParser)]);
  if (known !== null) return createTemplateRenderer(known, options.tokenizer, options);
  const { familyFromTemplate } = await import("./detection/detect-family.ts");
  return createTemplateRenderer(familyFromTemplate(options), options.tokenizer, options);
}
