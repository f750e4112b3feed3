// Text that somebody else wrote, for places where it must not act: terminals, tables, messages. Control characters could clear a screen,
// move what is written before, or turn its direction; half a character is nothing that can be written.

/** Controls but line feeds and tabs, marks of direction, ends of lines and paragraphs, invisible tags, lone surrogates. */
const hidden =
  // oxlint-disable-next-line no-control-regex
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufff9-\ufffb\u{e0000}-\u{e007f}\p{Cs}]/gu;

/** Control characters become visible escapes; line feeds and tabs stay. */
export function visible(text: string): string {
  return text.replace(hidden, escaped);
}

/** The same in one line: line feeds and tabs become escapes, too. For names, and cells of tables. */
export function visibleLine(text: string): string {
  return visible(text).replaceAll("\n", "\\n").replaceAll("\t", "\\t");
}

/** JSON with the same characters as JSON escapes: it says what it said. */
export function visibleJson(json: string): string {
  return json.replace(hidden, (character) =>
    Array.from({ length: character.length }, (_, at) => unitEscape(character.charCodeAt(at))).join(""),
  );
}

/** With the replacement character for half a character: the text as an address or a page can hold it. */
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
