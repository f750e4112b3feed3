// Sampled output to reasoning, content and tool calls: one file per syntax, each identical to
// SGLang's parser of that name if SGLang has one. This entry loads all formats; a rollout imports
// `on-demand.ts`, and loads only its own.

import { addAllFormats } from "./all-formats.ts";

export * from "./on-demand.ts";
export { ResponseParseError, ResponseTemplateError } from "./response-template/errors.ts";
export { loadResponseTemplate, type ResponseTemplate } from "./response-template/load-template.ts";
export { responseTemplateParsers } from "./response-template/template-parsers.ts";
export {
  parseResponse,
  type ResponseEvent,
  type ResponseOptions,
  ResponseParser,
} from "./response-template/response-parser.ts";
export { formatsWithout } from "./spelled-calls.ts";

addAllFormats();
