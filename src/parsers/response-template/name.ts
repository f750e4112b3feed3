// Name of the parsers that read actions by a checkpoint's own response template.

/** Value for `--tool-parser` and `--reasoning-parser`, as SGLang names it. */
export const responseTemplateName = "response_template";
