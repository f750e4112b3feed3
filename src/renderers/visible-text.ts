// The text of a content that may be a list of parts, as GLM's and MiniMax's templates take it: what is no text is left out.

import { printed, type TemplateValue } from "./template-values.ts";

/** A text, or the texts of a list of parts. */
export function visibleText(content: TemplateValue): string {
  if (content === undefined) return "";
  if (!Array.isArray(content)) return printed(content);
  const texts = content.map((item) => {
    if (item instanceof Map) return item.get("type") === "text" ? printed(item.get("text")) : "";
    return typeof item === "string" ? item : "";
  });
  return texts.join("");
}
