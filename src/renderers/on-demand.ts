// The renderers without the formats of tool calls, the detection of families and the audit of
// templates: `loadRenderer` loads the parts that one renderer needs. The other functions find only
// parts that are loaded.

export { bundledChatTemplate, bundledToolSentence } from "./bundled-template.ts";
export {
  type ChatTemplate,
  ChatTemplateError,
  type PromptEncoder,
  segmentsText,
  type TemplateContext,
  type TemplateInput,
  type TemplateSegment,
  type TemplateSource,
} from "./chat-template.ts";
export { type EncoderRow, encoderOf } from "./encoders/encoder-table.ts";
export { familyOfChatTemplate, rendererFamily, rendererFamilyNames } from "./families.ts";
export { compileChatTemplate } from "./jinja/compile-chat-template.ts";
export { loadRenderer } from "./load-renderer.ts";
export type { PromptEdit } from "./prompt-edit.ts";
export { type RendererFamily, wireMessages } from "./renderer-family.ts";
export { unwritableNames } from "./tool-names.ts";
export { createTemplateRenderer, type RendererOptions } from "./template-renderer.ts";
