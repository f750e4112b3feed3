// Templates as text, the way Python's `str.format` writes them: `{name}` is a placeholder, `{{` and `}}` are braces. Text,
// so that a person can edit the prompts of a prepared folder; nothing of `str.format` but plain names.

import type { Template } from "./python/read-template.ts";

export function formatTemplate(template: Template): string {
  return template
    .map((part) =>
      typeof part === "string" ? part.replaceAll("{", "{{").replaceAll("}", "}}") : `{${part.placeholder}}`,
    )
    .join("");
}

/** Reads what {@link formatTemplate} writes. Returns the reason, as a sentence part, when the text is no such template. */
export function parseTemplate(text: string, placeholders: readonly string[]): Template | { readonly problem: string } {
  const parts: (string | { readonly placeholder: string })[] = [];
  let position = 0;
  while (position < text.length) {
    const character = text[position] ?? "";
    if ((character === "{" || character === "}") && text[position + 1] === character) {
      parts.push(character);
      position += 2;
    } else if (character === "{") {
      const end = text.indexOf("}", position);
      const name = text.slice(position + 1, end < 0 ? text.length : end);
      if (end < 0 || !placeholders.includes(name)) {
        const known = placeholders.map((placeholder) => `{${placeholder}}`).join(", ");
        return {
          problem: `${JSON.stringify(`{${name.slice(0, 40)}}`)} is none of its placeholders (${known || "none"})`,
        };
      }
      parts.push({ placeholder: name });
      position = end + 1;
    } else if (character === "}") {
      return { problem: 'a single "}" stands in it, "}}" is wanted' };
    } else {
      let end = position;
      while (end < text.length && text[end] !== "{" && text[end] !== "}") end++;
      parts.push(text.slice(position, end));
      position = end;
    }
  }
  return parts;
}

/** Puts values in the place of all placeholders; a value that is not given is left out. */
export function fillTemplate(template: Template, values: Readonly<Record<string, string>>): string {
  return template.map((part) => (typeof part === "string" ? part : (values[part.placeholder] ?? ""))).join("");
}
