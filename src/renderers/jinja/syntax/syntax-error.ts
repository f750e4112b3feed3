import { ChatTemplateError } from "../../chat-template.ts";

/** What Jinja raises for a template that it cannot compile. */
export function syntaxError(what: string): ChatTemplateError {
  return new ChatTemplateError("TemplateSyntaxError", `Cannot read the chat template: ${what}.`);
}

/** For what Jinja would compile and we do not. */
export function unsupportedSyntax(what: string): ChatTemplateError {
  return new ChatTemplateError("unsupported", `Cannot use the chat template: ${what} is not supported.`);
}
