// Messages to tokens and back, one folder per model family.

export {
  type ChatTemplate,
  ChatTemplateError,
  segmentsText,
  type TemplateContext,
  type TemplateInput,
  type TemplateSegment,
} from "./chat-template.ts";
export { chooseRenderer, type ChooseRendererOptions, familyOfChatTemplate, rendererFor } from "./choose-renderer.ts";
export { type FallbackFamilyOptions, familyFromTemplate } from "./fallback/fallback-family.ts";
export { rendererFamily, rendererFamilyNames } from "./families.ts";
export { compileChatTemplate } from "./jinja/compile-chat-template.ts";
export type { PromptEdit } from "./prompt-edit.ts";
export { createQwenRenderer, type QwenRendererOptions } from "./qwen/qwen-renderer.ts";
export { knownTemplateNames } from "./fallback/known-templates.ts";
export { type RendererFamily, wireMessages } from "./renderer-family.ts";
export { createTemplateRenderer, type RendererOptions } from "./template-renderer.ts";
