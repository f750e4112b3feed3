// Facts about response templates that do not require their reader, which is loaded only for
// checkpoints that have a template.

import type { ResponseTemplateParsers } from "./template-parsers.ts";

/**
 * Makes the parsers of a checkpoint's own response template when they are needed; `value`: `response_template` of tokenizer_config.json. What
 * is wrong with it is a `ResponseTemplateError` of that moment.
 */
export async function loadTemplateParsers(value: unknown): Promise<() => ResponseTemplateParsers> {
  const [{ loadResponseTemplate }, { responseTemplateParsers }] = await Promise.all([
    import("./load-template.ts"),
    import("./template-parsers.ts"),
  ]);
  return () => responseTemplateParsers(loadResponseTemplate(value));
}
