// Small functions of strings, for simulated users, graders and writers of files; and what a model's reply holds.

import { contradictedKey } from "./duplicate-keys.ts";
import { splitReasoning } from "./reasoning.ts";
import { visibleLine } from "./visible-text.ts";

/**
 * Whether `text` names `thing`: found without case, and not as a part of a longer word or number ("$12" is not in "$120"). An
 * empty thing is never mentioned.
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

/** True when the two neighbouring characters both belong to words, so that no word ends between them. */
function isPartOfWord(text: string, left: number, right: number): boolean {
  return isWordCharacter(text[left]) && isWordCharacter(text[right]);
}

function isWordCharacter(character: string | undefined): boolean {
  return character !== undefined && /[\p{L}\p{N}]/u.test(character);
}

/** A text as it is. Given this very function to apply, a writer need not make the text at all. */
export function unchanged(text: string): string {
  return text;
}

/** Lines of at most `width` characters, no word broken in two: one that is longer has a line of its own. No colours within. */
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

/** Columns whose words are longer lose the middles of those, down to this width, where the table would be too wide otherwise. */
const leastWidth = 16;

/**
 * Rows in aligned columns, without a frame; the last column is not padded. `header`: the titles, as in "task | >reward", where
 * ">" puts a column at the right, as numbers stand. Cells hold no colours; control characters and line ends in them become visible.
 * `width`: characters of a line, default 80; cells and titles of a wider table continue below themselves, at spaces, and of words
 * that are too long even so the middle is left out.
 */
export function textTable(header: string, rows: readonly (readonly string[])[], width = 80): string[] {
  return tableRows(header, rows, width).flat();
}

/** The same with the lines of each row together, those of the titles first. */
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
 * As wide as their cells are, two spaces apart; where that is more than `width` in all, the widest are made narrower, first only between
 * words, and they stand closer.
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

/** The widths with the largest cap that makes them fit, where `least` lets them. */
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

/** The JSON of a text; `undefined`, which is no JSON: it holds none. */
export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * The JSON of a model's answer: reasoning, and a code fence around the whole, are left out. Throws a plain error, also for an
 * object that says two different things of one key. `notes`: keys whose values are remarks, which may differ.
 */
export function answeredJson(answer: string, notes: readonly string[] = []): unknown {
  // Tags in the strings of an answer that is whole JSON are quotations.
  const texts = [answer, splitReasoning(answer).content].map((text) => unfenced(text.trim()));
  for (const text of texts) {
    const value = jsonOf(text);
    if (value === undefined) continue;
    const key = contradictedKey(text, notes);
    if (key === null) return value;
    throw new Error(`the answer says two different things of ${JSON.stringify(key)}`);
  }
  throw new Error(texts[1] === "" ? "the answer is empty" : "the answer is not JSON");
}

function unfenced(text: string): string {
  const [opening = null] = /^```(?:json)?\s*\n/.exec(text) ?? [];
  if (opening === null || !text.endsWith("```")) return text;
  return text.slice(opening.length, -3).replace(/\n$/, "");
}
