// Tasks from a function of the user's: a module whose default export gives pages of rows. It names
// its own version, because its tasks cannot be hashed without creating all of them, and two runs
// with equal versions are taken to have equal tasks.

import { createHash } from "node:crypto";
import { ConfigurationError, messageOf } from "../core/index.ts";
import { fromForeign, toPlain } from "../python-semantics/json/plain.ts";
import { longestRecord } from "./records.ts";
import type { RowFacts, RowReader, TaskRow, TaskTable, TraitFacts } from "./task-table.ts";

/**
 * Default export of a module of tasks (`--env-tasks tasks.mjs`).
 *
 * @example
 * export default {
 *   version: "sums-2",
 *   size: { train: 1_000_000, test: 1000 },
 *   page: (offset, limit, split) =>
 *     Array.from({ length: limit }, (_, at) => ({ reset: { seed: offset + at, split } })),
 * };
 */
export type TaskPages = {
  /** Changes whenever a task changes: a run is resumed only with the version that it began with. */
  readonly version: string;
  /** Number of tasks, or numbers by split; each at least 1. A number is that of the usual split. */
  readonly size: number | Readonly<Record<string, number>>;
  /**
   * Tasks `offset` to `offset + limit - 1` of a split, with the fields that a line of a file would
   * have. Synchronous; equal arguments give equal tasks. A page never ends beyond the size.
   */
  page(offset: number, limit: number, split: string): readonly unknown[];
};

const pageSize = 64;
/** Total length of the pages that are kept, in characters of JSON; the last one is always kept. */
const keptCharacters = 32 * 2 ** 20;
const most = { size: 1_000_000_000, splits: 1000, version: 200 };

type Page = { readonly rows: readonly TaskRow[]; readonly facts: readonly RowFacts[]; readonly length: number };

/**
 * The tasks of a module's default export. Reads the first page of each split. Throws a
 * `ConfigurationError` that names the module, at once and when a later page is read.
 */
export function openTaskPages(exported: unknown, { path, reader }: PagesOptions): TaskTable {
  const refuse = (problem: string): ConfigurationError =>
    new ConfigurationError(
      `Cannot take tasks from "${path}": ${problem}; export default { version: "1", size: 100, page: (offset, limit, split) => [...] }.`,
    );
  const { version, sizes, page } = readExport(exported, reader.defaultSplit, refuse);
  const pages = new Map<string, Page>();
  let kept = 0;
  /** Traits that each row has, as far as the first pages show; `null` before they are read. */
  let required: ReadonlySet<string> | null = null;

  const load = (split: string, offset: number): Page => {
    const limit = Math.min(pageSize, sizes.get(split)! - offset);
    const where = `page(${offset}, ${limit}, ${JSON.stringify(split)}) of "${path}"`;
    const fail = (problem: string, cause?: unknown): ConfigurationError =>
      new ConfigurationError(`Cannot take tasks from ${where}: ${problem.replace(/\.$/, "")}; correct the module.`, {
        cause,
      });
    let given: unknown;
    try {
      given = page(offset, limit, split);
    } catch (error) {
      throw fail(messageOf(error), error);
    }
    if (!Array.isArray(given)) {
      const isPromise = typeof (given as { readonly then?: unknown } | null)?.then === "function";
      throw fail(isPromise ? "it returned a promise, and tasks are taken synchronously" : "it returned no list");
    }
    if (given.length !== limit) throw fail(`it returned ${given.length} tasks, expected ${limit}`);
    const ids = new Set<string>();
    const rows: TaskRow[] = [];
    const facts: RowFacts[] = [];
    let length = 0;
    for (let at = 0; at < limit; at++) {
      const place = `task ${offset + at} of split "${split}" of "${path}"`;
      let text: string;
      try {
        text = JSON.stringify(toPlain(fromForeign(given[at], { maxSize: longestRecord })));
      } catch (error) {
        throw fail(`task ${offset + at}: ${messageOf(error)}`, error);
      }
      const fields: unknown = JSON.parse(text);
      const read = reader.read(fields, place);
      if (Object.hasOwn(Object(fields) as object, "split") && read.split !== split) {
        throw fail(`task ${offset + at} names split "${read.split}"`);
      }
      const missing = [...(required ?? [])].find((trait) => !read.traits.includes(trait));
      if (missing !== undefined) throw fail(`task ${offset + at} has no ${missing}, and the first tasks have`);
      if (read.id !== null && ids.has(read.id)) throw fail(`two tasks have the id "${read.id}"`);
      if (read.id !== null) ids.add(read.id);
      rows.push({ fields, text, place });
      facts.push(read);
      length += text.length;
    }
    return { rows, facts, length };
  };
  const pageOf = (split: string, offset: number): Page => {
    const key = `${offset} ${split}`;
    const found = pages.get(key) ?? load(split, offset);
    if (!pages.delete(key)) kept += found.length;
    pages.set(key, found);
    for (const [oldest, { length }] of pages) {
      if (kept <= keptCharacters || oldest === key) break;
      pages.delete(oldest);
      kept -= length;
    }
    return found;
  };

  const traits = new Map<string, TraitFacts>();
  let seen = 0;
  for (const split of sizes.keys()) {
    const { rows, facts } = pageOf(split, 0);
    seen += rows.length;
    for (const [at, { traits: names }] of facts.entries()) {
      for (const name of names) {
        const { count = 0, first = rows[at]!.place } = traits.get(name) ?? {};
        traits.set(name, { count: count + 1, first });
      }
    }
  }
  required = new Set([...traits].flatMap(([name, { count }]) => (count === seen ? [name] : [])));
  return {
    splits: [...sizes].map(([name, size]) => ({
      name,
      size,
      hash: createHash("sha256")
        .update(JSON.stringify(["function", version, name, size]))
        .digest("hex"),
    })),
    size: [...sizes.values()].reduce((sum, size) => sum + size, 0),
    traits,
    allHave: (trait) => required.has(trait),
    row: (split, index) => {
      if (!(index >= 0 && index < (sizes.get(split) ?? 0))) {
        throw new RangeError(`Cannot find task ${index} of split "${split}" in "${path}".`);
      }
      return pageOf(split, index - (index % pageSize)).rows[index % pageSize]!;
    },
  };
}

type PagesOptions = {
  /** Name of the module, for messages. */
  readonly path: string;
  readonly reader: RowReader;
};

type ReadExport = {
  readonly version: string;
  readonly sizes: ReadonlyMap<string, number>;
  readonly page: (offset: number, limit: number, split: string) => unknown;
};

function readExport(
  exported: unknown,
  defaultSplit: string,
  refuse: (problem: string) => ConfigurationError,
): ReadExport {
  if (typeof exported !== "object" || exported === null) throw refuse("its default export is not an object");
  const { version, size, page } = exported as Readonly<Record<string, unknown>>;
  if (typeof version !== "string" || version === "" || version.length > most.version) {
    throw refuse(`its version is not a string of 1 to ${most.version} characters`);
  }
  if (typeof page !== "function") throw refuse("its page is not a function");
  const entries: readonly (readonly [string, unknown])[] =
    typeof size === "object" && size !== null ? Object.entries(size) : [[defaultSplit, size]];
  if (entries.length === 0 || entries.length > most.splits) {
    throw refuse(`it has ${entries.length} splits, expected 1 to ${most.splits}`);
  }
  const sizes = new Map<string, number>();
  for (const [split, count] of entries) {
    if (typeof count !== "number" || !Number.isSafeInteger(count) || count < 1 || count > most.size || split === "") {
      throw refuse(`the size of split "${split}" is ${String(count)}, expected a whole number from 1 to ${most.size}`);
    }
    sizes.set(split, count);
  }
  return { version, sizes, page: (...given) => Reflect.apply(page, exported, given) as unknown };
}
