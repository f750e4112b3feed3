// HTML escaping as Jinja's markupsafe does it. Chat templates run without automatic escaping; the filter `escape` is the one user.

import { concatTexts, TracedText } from "./traced-text.ts";

const replacements: ReadonlyMap<string, string> = new Map([
  ["&", "&amp;"],
  [">", "&gt;"],
  ["<", "&lt;"],
  ["'", "&#39;"],
  ['"', "&#34;"],
]);

/** The text as Markup, its HTML characters escaped; Markup stays as it is. */
export function escapeText(text: TracedText): TracedText {
  if (text.isMarkup || !/[&<>'"]/.test(text.text)) return text.asMarkup(true);
  let offset = 0;
  const parts = Array.from(text.text, (character) => {
    const piece = text.slice(offset, (offset += character.length));
    const replacement = replacements.get(character);
    return replacement === undefined ? piece : new TracedText(replacement, piece.origins);
  });
  return concatTexts(parts).asMarkup(true);
}
