/** How a column stands: texts at the left, numbers at the right. */
export type Column = { readonly title: string; readonly align: "left" | "right" };

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
