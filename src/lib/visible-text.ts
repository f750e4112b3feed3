// Makes text from outside safe for terminals, tables and messages. Control characters could clear a
// screen, overwrite earlier text, or change its direction; lone surrogates cannot be written.

/**
 * Control characters except line feeds and tabs, direction marks, line and paragraph separators,
 * invisible tags, lone surrogates.
 */
const hidden =
  // oxlint-disable-next-line no-control-regex
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufff9-\ufffb\u{e0000}-\u{e007f}\p{Cs}]/gu;

/** Control characters become visible escapes; line feeds and tabs are unchanged. */
export function visible(text: string): string {
  return text.replace(hidden, escaped);
}

/** The same on one line: line feeds and tabs also become escapes. For names and table cells. */
export function visibleLine(text: string): string {
  return visible(text).replaceAll("\n", "\\n").replaceAll("\t", "\\t");
}

/** Writes the same characters as JSON escapes, so the JSON value is unchanged. */
export function visibleJson(json: string): string {
  return json.replace(hidden, (character) =>
    Array.from({ length: character.length }, (_, at) => unitEscape(character.charCodeAt(at))).join(""),
  );
}

/**
 * Replaces lone surrogates by the replacement character, so that addresses and pages can hold the
 * text.
 */
export function wellFormed(text: string): string {
  return text.replaceAll(/\p{Cs}/gu, "\ufffd");
}

function escaped(character: string): string {
  const code = character.codePointAt(0)!;
  if (code <= 0xff) return `\\x${code.toString(16).padStart(2, "0")}`;
  return code <= 0xffff ? unitEscape(code) : `\\u{${code.toString(16)}}`;
}

function unitEscape(unit: number): string {
  return `\\u${unit.toString(16).padStart(4, "0")}`;
}
