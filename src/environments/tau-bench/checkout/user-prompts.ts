// The prompts of simulated users as functions, made from the templates of `user_prompts.json`. Their type is what `users` takes
// in place of its own prompts, written down again: environments do not import users. Templates are text, written as Python's
// `str.format` does (`{name}` is a placeholder, `{{` and `}}` are braces, nothing else), so that a person can edit them.

import { ConfigurationError } from "../../../core/index.ts";
import { JsonSyntaxError, parseJson, type JsonValue } from "../../../python-semantics/json/index.ts";
import type { Template } from "../../checkout/read-template.ts";

export function formatTemplate(template: Template): string {
  return template
    .map((part) =>
      typeof part === "string" ? part.replaceAll("{", "{{").replaceAll("}", "}}") : `{${part.placeholder}}`,
    )
    .join("");
}

/** Reads what {@link formatTemplate} writes. Returns the reason, as a sentence part, when the text is no such template. */
function parseTemplate(text: string, placeholders: readonly string[]): Template | string {
  const parts: (string | { readonly placeholder: string })[] = [];
  for (const [part] of text.matchAll(/\{\{|\}\}|\{[^}]*\}?|\}|[^{}]+/g)) {
    if (part === "}") return 'a single "}" stands in it, "}}" is expected';
    if (part === "{{" || part === "}}") parts.push(part[0]!);
    else if (!part.startsWith("{")) parts.push(part);
    else {
      const name = part.slice(1).replace(/\}$/, "");
      if (!part.endsWith("}") || !placeholders.includes(name)) {
        const known = placeholders.map((placeholder) => `{${placeholder}}`).join(", ");
        return `${JSON.stringify(`{${name.slice(0, 40)}}`)} is none of its placeholders (${known || "none"})`;
      }
      parts.push({ placeholder: name });
    }
  }
  return parts;
}

/** Puts values in the place of all placeholders; a value that is not given is left out. */
function fillTemplate(template: Template, values: Readonly<Record<string, string>>): string {
  return template.map((part) => (typeof part === "string" ? part : (values[part.placeholder] ?? ""))).join("");
}

/** Fits `UserPrompts` of `users`. */
export type TauUserPrompts = {
  readonly greeting: string;
  readonly system: (instruction: string | null) => string;
  readonly reactSystem: (instruction: string | null) => string;
  readonly check: (input: ReviewedLine) => string;
  readonly reflect: (input: ReviewedLine) => string;
};

type ReviewedLine = { readonly transcript: string; readonly response: string };

/** Reads the text of a `user_prompts.json`; `file` is for messages. Throws a `ConfigurationError` when it is no such file. */
export function parseUserPrompts(text: string, file: string): TauUserPrompts {
  let prompts: JsonValue;
  try {
    prompts = parseJson(text);
  } catch (error) {
    if (error instanceof JsonSyntaxError) throw cannotRead(file, `it is no JSON (${error.pythonMessage})`);
    throw error;
  }
  const read = (key: string, placeholders: readonly string[]): Template => {
    const value = prompts instanceof Map ? prompts.get(key) : undefined;
    if (typeof value !== "string") {
      throw cannotRead(file, `it has no string "${key}", one string for each prompt is expected`);
    }
    const template = parseTemplate(value, placeholders);
    if (typeof template === "string") throw cannotRead(file, `in "${key}", ${template}`);
    return template;
  };
  const readSystem = (key: string): ((instruction: string | null) => string) => {
    const given = read(key, ["instruction"]);
    const absent = fillTemplate(read(`${key}_without_instruction`, []), {});
    return (instruction) => (instruction === null ? absent : fillTemplate(given, { instruction }));
  };
  const readReview = (key: string): ((input: ReviewedLine) => string) => {
    const template = read(key, ["transcript", "response"]);
    return ({ transcript, response }) => fillTemplate(template, { transcript, response });
  };
  return {
    greeting: fillTemplate(read("greeting", []), {}),
    system: readSystem("system"),
    reactSystem: readSystem("react_system"),
    check: readReview("check"),
    reflect: readReview("reflect"),
  };
}

const cannotRead = (file: string, problem: string): ConfigurationError =>
  new ConfigurationError(
    `Cannot read the prompts of simulated users in "${file}": ${problem}; prepare the folder again, or correct the file.`,
  );
