// Messages to tokens and back, one folder per model family.

export {
  type ChatTemplate,
  ChatTemplateError,
  segmentsText,
  type TemplateContext,
  type TemplateInput,
  type TemplateSegment,
} from "./chat-template.ts";
export { rendererFamily, rendererFamilyNames } from "./families.ts";
export type { RendererFamily } from "./renderer-family.ts";
