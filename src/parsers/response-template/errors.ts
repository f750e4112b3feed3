// Reasons to refuse a response template, or a text read by one.

import { ConfigurationError } from "../../core/index.ts";

/** A response template that cannot be used: `message` names the part and the reason. */
export class ResponseTemplateError extends ConfigurationError {
  override readonly name = "ResponseTemplateError";
  constructor(problem: string) {
    super(`Cannot use the response template: ${problem}.`);
  }
}

/** A text that a response template does not read, where transformers raises. */
export class ResponseParseError extends Error {
  override readonly name = "ResponseParseError";
  constructor(problem: string) {
    super(`Cannot read the response: ${problem}.`);
  }
}
