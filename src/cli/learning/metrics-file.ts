// metrics.csv: one row a step, written when the step ends. Reading it back gives the numbers that were written, so that a
// resumed run knows its past.

import { appendFile, readFile, writeFile } from "node:fs/promises";
import { ConfigurationError } from "../../core/index.ts";

export type MetricsRow = Readonly<Record<string, number | null>>;

/** Appends a row; the first one brings the header. */
export async function appendMetrics(path: string, row: MetricsRow, isFirst: boolean): Promise<void> {
  const header = isFirst ? `${Object.keys(row).join(",")}\n` : "";
  await appendFile(path, `${header}${lineOf(row)}`);
}

/** Writes the file anew: a resumed run drops the steps after its checkpoint. */
export async function writeMetrics(path: string, rows: readonly MetricsRow[]): Promise<void> {
  const [first] = rows;
  const header = first === undefined ? "" : `${Object.keys(first).join(",")}\n`;
  await writeFile(path, header + rows.map(lineOf).join(""));
}

/** Rejects with a `ConfigurationError` for a file that is not one of ours. */
export async function readMetrics(path: string): Promise<readonly MetricsRow[]> {
  const [header = "", ...lines] = (await readFile(path, "utf8")).split("\n").filter((line) => line !== "");
  const names = header.split(",");
  return lines.map((line, index) => {
    const cells = line.split(",");
    const values = cells.map((cell) => (cell === "" ? null : Number(cell)));
    if (cells.length !== names.length || values.some(Number.isNaN)) {
      throw new ConfigurationError(
        `Cannot read "${path}" at line ${index + 2}: it does not fit the header; remove the line, or begin a new run.`,
      );
    }
    return Object.fromEntries(names.map((name, place) => [name, values[place]!]));
  });
}

function lineOf(row: MetricsRow): string {
  return `${Object.values(row)
    .map((value) => (value === null || Number.isNaN(value) ? "" : String(value)))
    .join(",")}\n`;
}
