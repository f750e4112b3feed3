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

/**
 * Rows in aligned columns, without a frame; the last column is not padded. `header`: the titles, as in "task | >reward", where
 * ">" puts a column at the right, as numbers stand. Cells hold no colours; control characters and line ends in them become visible.
 */
export function textTable(header: string, rows: readonly (readonly string[])[]): string[] {
  const titles = header.split("|").map((title) => visibleLine(title.trim()));
  const lines = [titles.map((title) => title.replace(/^>/, "")), ...rows.map((cells) => cells.map(visibleLine))];
  const widths = titles.map((_, at) => Math.max(...lines.map((cells) => cells[at]?.length ?? 0)));
  return lines.map((cells) =>
    titles
      .map((title, at) => {
        const cell = cells[at] ?? "";
        if (title.startsWith(">")) return cell.padStart(widths[at] ?? 0);
        return at === titles.length - 1 ? cell : cell.padEnd(widths[at] ?? 0);
      })
      .join("  ")
      .trimEnd(),
  );
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
