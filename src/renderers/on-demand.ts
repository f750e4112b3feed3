// The renderers without the formats of tool calls: `loadRenderer` loads those that one renderer needs. The other functions find only
// what is loaded.

export { auditTemplate } from "./audit/audit-template.ts";
export { AuditedTemplate, type AuditTemplateOptions } from "./audit/audited-template.ts";
export type {
  Difference,
  HistoryChange,
  HistoryFinding,
  RoundTripFinding,
  TemplateAudit,
} from "./audit/template-audit.ts";
export { answerFrame, openerOf, type WrittenAnswer, writtenAnswer } from "./audit/sampled-answers.ts";
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
export {
  chooseRenderer,
  type ChooseRendererOptions,
  createQwenRenderer,
  loadRenderer,
  type QwenRendererOptions,
  rendererFor,
} from "./choose-renderer.ts";
export { type DetectFamilyOptions, familyFromTemplate } from "./detection/detect-family.ts";
export { type EncoderRow, encoderOf } from "./encoders/encoder-table.ts";
export { familyOfChatTemplate, rendererFamily, rendererFamilyNames } from "./families.ts";
export { compileChatTemplate } from "./jinja/compile-chat-template.ts";
export type { PromptEdit } from "./prompt-edit.ts";
export { type RendererFamily, wireMessages } from "./renderer-family.ts";
export { unwritableNames } from "./tool-names.ts";
export { createTemplateRenderer, type RendererOptions } from "./template-renderer.ts";
export { bundledChatTemplate, bundledToolSentence } from "./template-text.ts";
