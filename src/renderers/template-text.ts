// Chat templates as text: the fingerprint that recognises a published one, and the compiled program of each. Vendors' templates come
// from the folders of their models and are never part of the package.

import { AttributedError, ConfigurationError } from "../core/index.ts";
import { type ChatTemplate, ChatTemplateError, type TemplateSource } from "./chat-template.ts";
import { compileChatTemplate } from "./jinja/compile-chat-template.ts";

/**
 * Identifies a chat template by its text: two FNV-1a hashes of the UTF-16 units in hexadecimal, line ends and surrounding white
 * space aside. Distinguishes published templates; not a defence against forgery.
 */
export function templateFingerprint(template: string): string {
  const text = template.replaceAll("\r\n", "\n").trim();
  let low = 0x811c9dc5;
  let high = 0x9747b28c;
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index);
    low = Math.imul(low ^ unit, 0x01000193);
    high = Math.imul(high ^ (unit + 0x5bd1), 0x01000193);
  }
  return [high, low].map((hash) => (hash >>> 0).toString(16).padStart(8, "0")).join("");
}

/**
 * The latest compiled templates by their text: a run makes many renderers of one, and compiling
 * costs more than rendering.
 */
const compiled = new Map<string, ChatTemplate>();
const maxCompiled = 8;

/**
 * The program of a chat template. Throws a `ConfigurationError` with the reason if it cannot be
 * compiled.
 */
export function compiledTemplate(text: TemplateSource): ChatTemplate {
  if (typeof text !== "string") return text;
  const template = compiled.get(text) ?? unlessRefused(text, () => compileChatTemplate(text));
  compiled.delete(text);
  compiled.set(text, template);
  if (compiled.size > maxCompiled) compiled.delete(compiled.keys().next().value!);
  return template;
}

/**
 * The result of `run`. If the template raises an error, throws the reason why no renderer can be
 * made of it: `state`, then that error.
 */
export function unlessRefused<T>(text: TemplateSource, run: () => T, state = ""): T {
  try {
    return run();
  } catch (error) {
    if (error instanceof ChatTemplateError) throw templateRefusal(text, state + error.message, error);
    if (error instanceof AttributedError && error.failure.code === "message-not-shown") {
      throw templateRefusal(text, "it leaves out a question");
    }
    throw error;
  }
}

/** The error for a template that no renderer can be made from. */
export function templateRefusal(text: TemplateSource, state: string, cause?: ChatTemplateError): ConfigurationError {
  const message = `Cannot create a renderer from chat template "${templateName(text)}": ${state.replace(/\.$/, "")}.`;
  return new ConfigurationError(message, cause === undefined ? undefined : { cause });
}

/** Name of an unknown chat template; an encoder has the name of its family. */
export function templateName(text: TemplateSource): string {
  return typeof text !== "string" ? text.family.name : `template-${templateFingerprint(text)}`;
}
