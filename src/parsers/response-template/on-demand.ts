// Facts about response templates that do not require their reader, which is loaded only for
// checkpoints that have a template.

import type { ResponseTemplateParsers } from "./template-parsers.ts";

/**
 * Creates the parsers of a checkpoint's own response template when they are needed; `value`:
 * `response_template` of tokenizer_config.json. An invalid template throws a
 * `ResponseTemplateError` only then.
 */
export async function loadTemplateParsers(value: unknown): Promise<() => ResponseTemplateParsers> {
  const [{ loadResponseTemplate }, { responseTemplateParsers }] = await Promise.all([
    import("./load-template.ts"),
    import("./template-parsers.ts"),
  ]);
  return () => responseTemplateParsers(loadResponseTemplate(value));
}
