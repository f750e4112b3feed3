// Rows as JSON lines: one object a line, numbers as Python reads them.

import { PartialFile } from "./partial-file.ts";
import { type AnyRow, type Columns, rowLine } from "./row-columns.ts";
import type { RowFile } from "./row-file.ts";

/** Characters that leave together. */
const batchLength = 1 << 20;

export async function createJsonLinesFile(path: string, columns: Columns<AnyRow>): Promise<RowFile> {
  const file = await PartialFile.open(path);
  let waiting: string[] = [];
  let length = 0;
  const flush = async (): Promise<void> => {
    const text = waiting.join("");
    waiting = [];
    length = 0;
    await file.append(text);
  };
  return {
    write: async (rows) => {
      for (const row of rows) {
        const line = `${rowLine(row, columns)}\n`;
        waiting.push(line);
        length += line.length;
        if (length >= batchLength) await flush();
      }
    },
    close: async () => {
      await flush();
      return file.close();
    },
    abandon: () => file.abandon(),
  };
}
