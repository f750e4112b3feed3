// Small string functions for simulated users, graders and file writers; and text from outside, made
// safe for terminals, tables and messages: control characters could clear a screen, overwrite earlier
// text, or change its direction, and lone surrogates cannot be written.
/**
 * True if `text` mentions `thing`: ignoring case, and not as a part of a longer word or number
 * ("$12" is not in "$120"). An empty thing is never mentioned.
 */
export function mentions(text: string, thing: string): boolean {
  const lower = text.toLowerCase();
  const name = thing.toLowerCase();
  if (name === "") return false;
  for (let at = lower.indexOf(name); at !== -1; at = lower.indexOf(name, at + 1)) {
    if (!isPartOfWord(lower, at - 1, at) && !isPartOfWord(lower, at + name.length - 1, at + name.length)) return true;
  }
  return false;
}

/** True if both adjacent characters belong to words, so that no word ends between them. */
function isPartOfWord(text: string, left: number, right: number): boolean {
  return isWordCharacter(text[left]) && isWordCharacter(text[right]);
}

function isWordCharacter(character: string | undefined): boolean {
  return character !== undefined && /[\p{L}\p{N}]/u.test(character);
}

/**
 * Returns the text unchanged. A writer that recognises this function need not create the text at
 * all.
 */
export function unchanged(text: string): string {
  return text;
}

/**
 * Lines of at most `width` characters, without breaking words: a longer word gets its own line. The
 * text must not contain colours.
 */
export function wrapLines(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    if (line !== "" && line.length + 1 + word.length > width) {
      lines.push(line.trimEnd());
      line = word;
    } else {
      line = line === "" ? word : `${line} ${word}`;
    }
  }
  return [...lines, line];
}

/**
 * Minimum width to which columns are narrowed if the table would be too wide otherwise; longer
 * words in them lose their middle.
 */
const leastWidth = 16;

/**
 * Rows in aligned columns, without a frame; the last column is not padded. `header` has the titles,
 * as in "task | >reward", where ">" aligns a column right, for numbers. Cells must not contain
 * colours; control characters and line ends in them become visible. `width` is the maximum number
 * of characters per line, default 80; cells and titles of a wider table wrap at spaces, and words
 * that are still too long lose their middle.
 */
export function textTable(header: string, rows: readonly (readonly string[])[], width = 80): string[] {
  return tableRows(header, rows, width).flat();
}

/** Like {@link textTable}, but the lines of each row are grouped, those of the titles first. */
export function tableRows(header: string, rows: readonly (readonly string[])[], width = 80): string[][] {
  const titles = header.split("|").map((title) => visibleLine(title.trim()));
  const isRight = titles.map((title) => title.startsWith(">"));
  const cells = [titles.map((title) => title.replace(/^>/, "")), ...rows.map((row) => row.map(visibleLine))];
  const { widths, gap } = columnWidths(cells, width);
  return cells.map((row) => {
    const wrapped = titles.map((_, at) => {
      const [cell, most] = [row[at] ?? "", widths[at] ?? 0];
      return cell.length <= most ? [cell] : wrapLines(cell, most).map((line) => withoutMiddle(line, most));
    });
    return Array.from({ length: Math.max(...wrapped.map((lines) => lines.length)) }, (_, line) =>
      wrapped
        .map((lines, at) => {
          const cell = lines[line] ?? "";
          if (isRight[at] === true) return cell.padStart(widths[at] ?? 0);
          return at === titles.length - 1 ? cell : cell.padEnd(widths[at] ?? 0);
        })
        .join(" ".repeat(gap))
        .trimEnd(),
    );
  });
}

function withoutMiddle(text: string, length: number): string {
  if (text.length <= length) return text;
  const characters = Array.from(text);
  const start = Math.ceil((length - 1) / 3);
  return `${characters.slice(0, start).join("")}…${characters.slice(start + 1 - length).join("")}`;
}

/**
 * Columns are as wide as their cells, two spaces apart; if the total exceeds `width`, the widest
 * are narrowed, first only between words, and the gaps shrink.
 */
function columnWidths(
  cells: readonly (readonly string[])[],
  width: number,
): { readonly widths: readonly number[]; readonly gap: number } {
  const columns = (cells[0] ?? []).map((_, at) => cells.map((row) => row[at] ?? ""));
  const longest = (texts: readonly string[]): number => texts.reduce((most, { length }) => Math.max(most, length), 0);
  const widths = columns.map(longest);
  const words = columns.map((column) => longest(column.flatMap((cell) => cell.split(" "))));
  const roomFor = (gap: number): number => width - gap * (widths.length - 1);
  const apart = narrowed(widths, words, roomFor(2));
  if (sumOf(apart) <= roomFor(2)) return { widths: apart, gap: 2 };
  const least = words.map((one) => Math.min(one, leastWidth));
  return { widths: narrowed(apart, least, roomFor(1)), gap: 1 };
}

const sumOf = (numbers: readonly number[]): number => numbers.reduce((sum, one) => sum + one, 0);

/** The widths under the largest cap that makes them fit, but not below `least`. */
function narrowed(widths: readonly number[], least: readonly number[], room: number): readonly number[] {
  const under = (cap: number): number[] =>
    widths.map((one, at) => Math.max(Math.min(one, cap), Math.min(one, least[at]!)));
  let [low, high] = [0, Math.max(0, ...widths)];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (sumOf(under(middle)) <= room) low = middle;
    else high = middle - 1;
  }
  return under(low);
}

/** The JSON value of a text; `undefined`, which is not a JSON value, if the text is not JSON. */
export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

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
