// The name of what reads actions by a checkpoint's own response template.

/** For `--tool-parser` and `--reasoning-parser`, as SGLang names it. */
export const responseTemplateName = "response_template";
