// What reads actions by a checkpoint's own response template; loaded for checkpoints that have one.

export { loadResponseTemplate } from "./load-template.ts";
export { responseTemplateParsers } from "./template-parsers.ts";
