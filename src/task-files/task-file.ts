// A file of tasks as a table. The first process reads all of it, checks each row and writes an index
// to the user's cache; later ones read only the index, and those rows of the file that they run.
// The cache is the user's and not the run's, because every new run, every worker and every resume of
// the same tasks would otherwise read the whole file once more.
//
// An index belongs to one state of its file (size, times, inode), and each row is compared with the
// hash that it had when the index was made, so that a changed file is never read with an old index.

import { Buffer } from "node:buffer";
import { type BigIntStats, closeSync, fstatSync, openSync, readSync, statSync } from "node:fs";
import { readdir, realpath, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { createHash } from "node:crypto";
import { dirname, extname, join, resolve } from "node:path";
import { ConfigurationError, messageOf } from "../core/index.ts";
import { systemCode } from "../lib/system-error.ts";
import { makeFolder, userCache } from "../system/make-folder.ts";
import { requireRegular } from "../system/regular-file.ts";
import {
  BadRowError,
  parseCsvHeader,
  parseCsvRecord,
  parseJsonRecord,
  type ParsedRow,
  type RawRecord,
  readRecords,
  type TextKind,
} from "./records.ts";
import { digestOf, type FileState, IndexBuilder, type IndexOwner, readIndex, type TaskIndex, writeIndex } from "./task-index.ts"; // prettier-ignore
import type { RowReader, TaskRow, TaskTable } from "./task-table.ts";

export type TaskFileOptions = {
  /** Folder that a relative path starts from. */
  readonly cwd: string;
  readonly reader: RowReader;
  /** The flag that names the file, for messages. */
  readonly flag: string;
  /**
   * Folder of indexes; it may not exist yet. One that cannot be written is not a fault.
   * @default the user's cache
   */
  readonly cache?: string;
};

/** An index is not worth a file for less than this: the file itself is read in milliseconds. */
const leastCached = 2 ** 20;

/** Indexes in the cache; those that were not used for the longest time are removed. */
const mostCached = 50;

type Source = {
  /** The file as the user names it, and the flag that names it, for messages. */
  readonly path: string;
  readonly flag: string;
  readonly file: string;
  readonly state: FileState;
  /** The file that holds its rows: the file itself, except for Parquet. */
  readonly rows: string;
  readonly kind: TextKind;
  /** Name of a row's place, for messages: Parquet has no lines. */
  readonly unit: "line" | "row";
};

/**
 * The tasks of a file of JSON lines, of CSV if its name ends in ".csv", or of Parquet if it ends in
 * ".parquet". Rejects with a `ConfigurationError` that names the line.
 */
export async function openTaskFile(path: string, options: TaskFileOptions): Promise<TaskTable> {
  const { cwd, reader, flag, cache = userCache("task-index") } = options;
  const file = resolve(cwd, path);
  try {
    await requireRegular(file);
    const extension = extname(file).toLowerCase();
    const isParquet = extension === ".parquet";
    const state = stateOf(statSync(file, { bigint: true }));
    const owner: IndexOwner = { reader: reader.name, file: await realpath(file), state };
    const name = createHash("sha256").update(`${reader.name}\n${owner.file}`).digest("hex").slice(0, 32);
    const place = isParquet || state.size >= leastCached ? join(cache, `${name}.tasks`) : null;
    const rows = isParquet ? join(cache, `${name}.jsonl`) : file;
    const kind = extension === ".csv" ? "csv" : "jsonl";
    const source: Source = { path, flag, file, state, rows, kind, unit: isParquet ? "row" : "line" };
    const cached = place === null ? null : await cachedIndex(place, owner);
    if (cached !== null && (!isParquet || (await isUsed(rows)))) return tableOf(cached, source);
    if (isParquet) await convertParquet(source);
    const index = await makeIndex(source, reader);
    if (place !== null) await keepIndex(place, writeIndex(index, owner));
    return tableOf(index, source);
  } catch (error) {
    throw readable(error, { path, flag, unit: /\.parquet$/i.test(path) ? "row" : "line" });
  }
}

function readable(error: unknown, { path, flag, unit }: Pick<Source, "path" | "flag" | "unit">): unknown {
  const refused = (place: string, problem: string): ConfigurationError =>
    new ConfigurationError(`Cannot read ${place}: ${problem}; correct ${flag}.`, { cause: error });
  if (error instanceof BadRowError) {
    return refused(error.line === null ? `"${path}"` : placeOf({ path, unit }, error.line), error.message);
  }
  const code = error instanceof ConfigurationError ? null : systemCode(error);
  if (code === null) return error;
  const states: Readonly<Record<string, string>> = { ENOENT: "there is no such file", EISDIR: "it is a folder" };
  return refused(`"${path}"`, states[code] ?? code);
}

const placeOf = ({ path, unit }: Pick<Source, "path" | "unit">, line: number): string => `${unit} ${line} of "${path}"`;

function stateOf({ size, mtimeNs, ctimeNs, dev, ino }: BigIntStats): FileState {
  return { size: Number(size), modified: String(mtimeNs), changed: String(ctimeNs), inode: `${dev}:${ino}` };
}

const isSame = (one: FileState, other: FileState): boolean => JSON.stringify(one) === JSON.stringify(other);

/** True if the file exists, which then counts as used now. */
async function isUsed(file: string): Promise<boolean> {
  const now = new Date();
  return utimes(file, now, now).then(
    () => true,
    () => false,
  );
}

/** Writes the rows of Parquet as JSON lines to the cache. */
async function convertParquet({ path, file, rows }: Source): Promise<void> {
  const draft = `${rows}.${process.pid}-${drafts++}`;
  try {
    await makeFolder(dirname(rows), 0o700);
    await writeFile(draft, "", { mode: 0o600 });
  } catch (error) {
    throw new ConfigurationError(
      `Cannot read "${path}": its rows are kept in "${dirname(rows)}", which cannot be written (${systemCode(error) ?? messageOf(error)}); set TRAINABLE_AGENTS_CACHE to a folder that can.`,
      { cause: error },
    );
  }
  try {
    const { writeParquetRows } = await import("./parquet.ts");
    await writeParquetRows({ file, target: draft });
    await rename(draft, rows);
  } catch (error) {
    await rm(draft, { force: true }).catch(() => undefined);
    throw error;
  }
}

/** Reads and checks all rows. */
async function makeIndex(source: Source, reader: RowReader): Promise<TaskIndex> {
  const { file, rows, kind, state } = source;
  const builder = new IndexBuilder();
  let header: readonly string[] | null = null;
  for await (const records of readRecords(rows, kind)) {
    for (const record of records) {
      if (kind === "csv" && header === null) {
        header = parseCsvHeader(record);
        continue;
      }
      const row = parseRecord(record, header);
      if (row === null) continue;
      const { line, offset, bytes } = record;
      const facts = reader.read(row.fields, placeOf(source, line));
      try {
        builder.add({ facts, digest: digestOf(row.fields), offset, length: bytes.length, line });
      } catch (error) {
        throw new BadRowError(line, error instanceof RangeError ? "it is nested too deeply" : `it has ${messageOf(error)}`); // prettier-ignore
      }
    }
  }
  if (!isSame(stateOf(statSync(file, { bigint: true })), state)) {
    throw new BadRowError(null, "it changed while it was read");
  }
  return builder.finish(header);
}

function parseRecord(record: Omit<RawRecord, "offset">, header: readonly string[] | null): ParsedRow | null {
  return header === null ? parseJsonRecord(record) : parseCsvRecord(record, header);
}

/** The index of this state of the file; `null` if there is none. */
async function cachedIndex(place: string, owner: IndexOwner): Promise<TaskIndex | null> {
  try {
    await requireRegular(place);
    const { size } = await stat(place);
    // A buffer of its own begins at a multiple of 8, as its numbers require.
    const bytes = Buffer.from(new ArrayBuffer(size));
    const descriptor = openSync(place, "r");
    try {
      readFully(descriptor, bytes, 0);
    } finally {
      closeSync(descriptor);
    }
    const index = readIndex(bytes, owner);
    if (index === null) return null;
    const now = new Date();
    await utimes(place, now, now);
    return index;
  } catch {
    return null;
  }
}

let drafts = 0;

/** Writes an index, and removes the oldest ones. A cache that cannot be written is not a fault. */
async function keepIndex(place: string, bytes: Buffer): Promise<void> {
  const folder = dirname(place);
  const draft = `${place}.${process.pid}-${drafts++}`;
  try {
    await makeFolder(folder, 0o700);
    await writeFile(draft, bytes, { mode: 0o600 });
    await rename(draft, place);
    const names = await readdir(folder);
    const times = await Promise.all(
      names.map(async (name) => ({ name, used: (await stat(join(folder, name)).catch(() => null))?.mtimeMs ?? 0 })),
    );
    const oldest = times.toSorted((one, other) => other.used - one.used).slice(mostCached);
    await Promise.all(oldest.map(({ name }) => rm(join(folder, name), { force: true })));
  } catch {
    await rm(draft, { force: true }).catch(() => undefined);
  }
}

function tableOf(index: TaskIndex, source: Source): TaskTable {
  const { splits, traits, header, rows } = index.facts;
  const starts = new Map<string, { readonly start: number; readonly size: number }>();
  let next = 0;
  for (const { name, size } of splits) {
    starts.set(name, { start: next, size });
    next += size;
  }
  const known = new Map(
    traits.map(({ name, count, firstLine }) => [name, { count, first: placeOf(source, firstLine) }]),
  );
  return {
    splits,
    size: rows,
    traits: known,
    allHave: (trait) => known.get(trait)?.count === rows,
    row: (split, at) => {
      const found = starts.get(split);
      if (found === undefined || !(at >= 0 && at < found.size)) {
        throw new RangeError(`Cannot find task ${at} of split "${split}" in "${source.path}".`);
      }
      return readRow(index, { at: found.start + at, header, source });
    },
  };
}

type RowPlace = { readonly at: number; readonly header: readonly string[] | null; readonly source: Source };

/** The file is opened for each row: a table has no end at which it could be closed. */
function readRow(index: TaskIndex, { at, header, source }: RowPlace): TaskRow {
  const { file, rows, state } = source;
  const [line, bytes] = [index.lines[at]!, Buffer.allocUnsafe(index.lengths[at]!)];
  const place = placeOf(source, line);
  const changed = (cause?: unknown): ConfigurationError =>
    new ConfigurationError(
      `Cannot read ${place}: the file has changed since it was opened; restore it and resume the run, or start a new one.`,
      { cause },
    );
  let descriptor: number;
  try {
    descriptor = openSync(rows, "r");
  } catch (error) {
    throw readable(error, source);
  }
  try {
    const found = rows === file ? fstatSync(descriptor, { bigint: true }) : statSync(file, { bigint: true });
    if (!isSame(stateOf(found), state)) throw changed();
    if (!readFully(descriptor, bytes, index.offsets[at]!)) throw changed();
  } finally {
    closeSync(descriptor);
  }
  let row: ParsedRow | null;
  try {
    row = parseRecord({ bytes, line }, header);
  } catch (error) {
    throw changed(error);
  }
  if (row === null) throw changed();
  const digest = digestOf(row.fields);
  if (digest.readUInt32LE(0) !== index.digests[2 * at] || digest.readUInt32LE(4) !== index.digests[2 * at + 1]) {
    throw changed();
  }
  return { ...row, place };
}

/** Fills the buffer from a position of the file. False if the file ends before. */
function readFully(descriptor: number, bytes: Buffer, position: number): boolean {
  for (let read = 0; read < bytes.length;) {
    const count = readSync(descriptor, bytes, read, bytes.length - read, position + read);
    if (count === 0) return false;
    read += count;
  }
  return true;
}
