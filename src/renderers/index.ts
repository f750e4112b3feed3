// Messages to tokens and back, by the model's own chat template and the known facts of its family.
// All parsers are loaded with this entry; a rollout imports `on-demand.ts`.

import { addAllFormats } from "../parsers/all-formats.ts";

export * from "./on-demand.ts";
export { auditTemplate } from "./audit/audit-template.ts";
export { AuditedTemplate, type AuditTemplateOptions } from "./audit/audited-template.ts";
export type {
  Difference,
  HistoryChange,
  HistoryFinding,
  RoundTripFinding,
  TemplateAudit,
  ValuesFound,
} from "./audit/template-audit.ts";
export { answerFrame, openerOf, type WrittenAnswer, writtenAnswer } from "./audit/sampled-answers.ts";
export {
  chooseRenderer,
  type ChooseRendererOptions,
  createQwenRenderer,
  type QwenRendererOptions,
  rendererFor,
} from "./choose-renderer.ts";
export { type DetectFamilyOptions, familyFromTemplate } from "./detection/detect-family.ts";

addAllFormats();
