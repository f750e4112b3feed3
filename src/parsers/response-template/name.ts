// Names of the parsers that read actions by a checkpoint's own response template.

/** Value for `--tool-parser` and `--reasoning-parser`, as SGLang names it; vLLM's name is "hf". */
export const responseTemplateName = "response_template";

/** True for each server's name of the parsers of a response template. */
export const isResponseTemplate = (name: unknown): boolean => name === responseTemplateName || name === "hf";
