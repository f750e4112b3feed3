// The name of what reads actions by a checkpoint's own response template, as SGLang has it. Apart, so that it is known without the reader.

/** For `--tool-parser` and `--reasoning-parser`. */
export const responseTemplateName = "response_template";
