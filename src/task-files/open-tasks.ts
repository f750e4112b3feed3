// Tasks as data, opened by the name of their file: one way for every environment that takes them.

import { extname, resolve } from "node:path";
import { ConfigurationError } from "../core/index.ts";
import { openTaskFile, type TaskFileOptions } from "./task-file.ts";
import { openTaskPages } from "./task-pages.ts";
import type { TaskTable } from "./task-table.ts";

export type TaskOptions = TaskFileOptions & {
  /** The default export of a module; the path is absolute. */
  readonly importDefault: (file: string, what: string) => Promise<unknown>;
};

/**
 * The tasks of a file: JSON lines, CSV (`.csv`), Parquet (`.parquet`), or a module with a function
 * that gives pages of them (`.js`, `.mjs`, `.ts` and the like). Rejects with a `ConfigurationError` for a file that
 * cannot be read, and for one without tasks.
 */
export async function openTasks(path: string, options: TaskOptions): Promise<TaskTable> {
  const { cwd, reader, flag, importDefault } = options;
  if (/^\.[cm]?[jt]s$/i.test(extname(path))) {
    return openTaskPages(await importDefault(resolve(cwd, path), "module of tasks"), { path, reader });
  }
  const table = await openTaskFile(path, options);
  if (table.size > 0) return table;
  throw new ConfigurationError(
    `Cannot read tasks from "${path}": it has none; write one task per line, or correct ${flag}.`,
  );
}
