// Small functions of strings, for simulated users, graders and writers of files.

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

/** How a column stands: texts at the left, numbers at the right. */
type Column = { readonly title: string; readonly align: "left" | "right" };

/** Rows in aligned columns, without a frame; the last column is not padded. Cells must hold no colours and no line ends. */
export function textTable(columns: readonly Column[], rows: readonly (readonly string[])[]): string[] {
  const widths = columns.map(({ title }, at) => Math.max(title.length, ...rows.map((row) => row[at]?.length ?? 0)));
  const line = (cells: readonly string[]): string =>
    columns
      .map(({ align }, at) => {
        const cell = cells[at] ?? "";
        const width = widths[at] ?? 0;
        if (align === "right") return cell.padStart(width);
        return at === columns.length - 1 ? cell : cell.padEnd(width);
      })
      .join("  ")
      .trimEnd();
  return [line(columns.map(({ title }) => title)), ...rows.map(line)];
}
