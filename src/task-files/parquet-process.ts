// Process that writes the rows of a Parquet file as JSON lines, one row group after the other. It is
// a process of its own because a hostile file of a few bytes can claim any number of values: pages are
// checked before they are decoded, but a run of values within a page is not, and one that is too long
// ends the JavaScript engine itself (a thread would take the run with it).

import { open, stat } from "node:fs/promises";
import { performance } from "node:perf_hooks";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { decompress } from "fzstd";
import { parquetMetadataAsync, parquetReadObjects, snappyUncompress } from "hyparquet";
import type { AsyncBuffer, Compressors, FileMetaData, ParquetParsers, RowGroup } from "hyparquet";
import { parquetHeader } from "hyparquet/src/column.js";
import { messageOf } from "../core/failure.ts";

/** The file to read, and the file to write. */
export type ParquetSetup = { readonly file: string; readonly target: string };

/**
 * Messages of the process: a sign of life, at least once a second, or the last one. `problem`: `null` if all
 * rows were written, otherwise what is wrong with the file.
 */
export type ParquetResult = { readonly isDone: boolean; readonly problem: string | null };

/** Limits on what a file may claim. */
const most = {
  metadataBytes: 64 * 2 ** 20,
  chunkBytes: 512 * 2 ** 20,
  pageBytes: 256 * 2 ** 20,
  pageValues: 10_000_000,
  rowCharacters: 16 * 2 ** 20,
  rows: 100_000_000,
  /** All rows as JSON lines together: a dictionary can repeat one long text in millions of rows. */
  writtenCharacters: 16 * 2 ** 30,
};

/** Bytes of columns that are decoded at once. */
const decodedBytes = 64 * 2 ** 20;
/** Rows that are decoded at once. */
const decodedRows = 50_000;
const writtenCharacters = 2 ** 20;

class BadParquetError extends Error {}

const bounded = (length: number): number => {
  if (length >= 0 && length <= most.pageBytes) return length;
  throw new BadParquetError(`a page claims ${length} bytes`);
};

const compressors: Compressors = {
  SNAPPY: (input, length) => {
    const output = new Uint8Array(bounded(length));
    snappyUncompress(input, output);
    return output;
  },
  GZIP: (input, length) => gunzipSync(input, { maxOutputLength: Math.max(1, bounded(length)) }),
  // A frame of zstd in a few bytes can hold its decoder in a loop without end: the parent waits for signs of life.
  ZSTD: (input, length) => {
    showLife();
    const claimed = contentSize(input);
    if (claimed !== null && claimed !== length) {
      throw new BadParquetError(`a page of ${length} bytes has ${claimed}`);
    }
    return decompress(input, new Uint8Array(bounded(length)));
  },
  BROTLI: (input, length) => brotliDecompressSync(input, { maxOutputLength: Math.max(1, bounded(length)) }),
};

/**
 * Number of bytes that a frame of zstd says it has (RFC 8878, section 3.1.1.1); `null` if it does not. The
 * decoder fills a page that is too short with zeros.
 */
function contentSize(frame: Uint8Array): number | null {
  const view = new DataView(frame.buffer, frame.byteOffset, frame.byteLength);
  const descriptor = frame.length > 4 ? view.getUint8(4) : 0;
  const isSingle = (descriptor & 0b10_0000) !== 0;
  const at = 5 + (isSingle ? 0 : 1) + [0, 1, 2, 4][descriptor & 0b11]!;
  if (frame.length < at + 8) return null;
  if (descriptor >>> 6 === 0) return isSingle ? view.getUint8(at) : null;
  if (descriptor >>> 6 === 1) return view.getUint16(at, true) + 256;
  return descriptor >>> 6 === 2 ? view.getUint32(at, true) : Number(view.getBigUint64(at, true));
}

let shownMs = -Infinity;

/** Tells the parent at most once a second that the process is at work. */
function showLife(): void {
  const now = performance.now();
  if (now - shownMs < 1000) return;
  shownMs = now;
  process.send!({ problem: null, isDone: false } satisfies ParquetResult);
}

const decoder = new TextDecoder("utf-8", { fatal: true });
const parsers: Partial<ParquetParsers> = {
  // The library's own puts U+FFFD in the place of what is not UTF-8.
  stringFromBytes: (bytes: Uint8Array | undefined) => (bytes === undefined ? undefined : decoder.decode(bytes)),
};

async function convert({ file: path, target }: ParquetSetup): Promise<void> {
  const { size } = await stat(path);
  const file = await open(path, "r");
  const output = await open(target, "w", 0o600);
  try {
    const buffer: AsyncBuffer = {
      byteLength: size,
      slice: async (start, end = size) => {
        if (!(start >= 0 && end >= start && end <= size)) throw new BadParquetError("a part of it lies outside of it");
        if (end - start > most.chunkBytes) throw new BadParquetError(`a part of it has ${end - start} bytes`);
        const bytes = new Uint8Array(end - start);
        let read = 0;
        while (read < bytes.length) {
          const { bytesRead } = await file.read(bytes, read, bytes.length - read, start + read);
          if (bytesRead === 0) throw new BadParquetError("it ends early");
          read += bytesRead;
        }
        return bytes.buffer;
      },
    };
    const metadata = await readMetadata(buffer);
    let [text, row, groupStart, written] = ["", 0, 0, 0];
    for (const group of metadata.row_groups) {
      const { rows, bytes } = await checkGroup(group, buffer);
      if (groupStart + rows > most.rows) throw new BadParquetError(`it has more than ${most.rows} rows`);
      const parts = Math.max(bytes / decodedBytes, rows / decodedRows, 1);
      const step = Math.ceil(rows / parts);
      for (let start = groupStart; start < groupStart + rows; start += step) {
        showLife();
        const rowEnd = Math.min(groupStart + rows, start + step);
        const read = await parquetReadObjects({
          file: buffer,
          metadata,
          rowStart: start,
          rowEnd,
          compressors,
          parsers,
        });
        for (const fields of read) {
          text += `${lineOf(fields, ++row)}\n`;
          if (text.length < writtenCharacters) continue;
          written += text.length;
          if (written > most.writtenCharacters) {
            throw new BadParquetError(`its rows have more than ${most.writtenCharacters / 2 ** 30} GB as JSON`);
          }
          await output.write(text);
          text = "";
        }
      }
      groupStart += rows;
    }
    await output.write(text);
  } finally {
    await output.close();
    await file.close();
  }
}

async function readMetadata(file: AsyncBuffer): Promise<FileMetaData> {
  if (file.byteLength < 12) throw new BadParquetError("it is too short to be Parquet");
  const tail = new DataView(await file.slice(file.byteLength - 8));
  const length = tail.getUint32(0, true);
  if (length > most.metadataBytes) throw new BadParquetError(`its metadata claim ${length} bytes`);
  const metadata = await parquetMetadataAsync(file);
  if (metadata.schema.some(({ name }) => name === "__proto__")) {
    throw new BadParquetError('a column is named "__proto__"');
  }
  return metadata;
}

/** Number of rows of a group, and of bytes of its pages. They claim no more than the limits allow. */
async function checkGroup(
  { num_rows, columns }: RowGroup,
  file: AsyncBuffer,
): Promise<{ readonly rows: number; readonly bytes: number }> {
  const rows = Number(num_rows);
  if (!Number.isSafeInteger(rows) || rows < 0 || (rows > 0 && columns.length === 0)) {
    throw new BadParquetError(`a group claims ${num_rows} rows in ${columns.length} columns`);
  }
  let bytes = 0;
  for (const { meta_data: column } of columns) {
    if (column === undefined) throw new BadParquetError("a column has no metadata");
    const { codec, dictionary_page_offset, data_page_offset, total_compressed_size } = column;
    if (codec !== "UNCOMPRESSED" && !(codec in compressors)) {
      throw new BadParquetError(`it is compressed with ${codec}; write it with zstd, Snappy, gzip or Brotli`);
    }
    const start = Number(dictionary_page_offset || data_page_offset);
    const view = new DataView(await file.slice(start, start + Number(total_compressed_size)));
    const reader = { view, offset: 0 };
    let found = 0;
    while (reader.offset < view.byteLength - 1) {
      const before = reader.offset;
      const page = parquetHeader(reader);
      const { data_page_header, data_page_header_v2, dictionary_page_header } = page;
      const values = (data_page_header ?? data_page_header_v2 ?? dictionary_page_header)?.num_values;
      if (values === undefined || !(values >= 0 && values <= most.pageValues)) {
        throw new BadParquetError(`a page claims ${values ?? "no"} values`);
      }
      bytes += bounded(page.uncompressed_page_size);
      if (dictionary_page_header === undefined) found += values;
      const end = reader.offset + page.compressed_page_size;
      if (!(end > before && end <= view.byteLength)) throw new BadParquetError("a page ends outside of its column");
      reader.offset = end;
    }
    if (found < rows) throw new BadParquetError(`a group claims ${rows} rows, and a column of it has ${found} values`);
  }
  return { rows, bytes };
}

/** A row as a line of JSON. A cell without a value is absent, as in CSV. */
function lineOf(fields: Readonly<Record<string, unknown>>, row: number): string {
  const plain: [string, unknown][] = [];
  for (const [name, value] of Object.entries(fields)) {
    if (value === null || value === undefined) continue;
    try {
      plain.push([name, cellOf(value)]);
    } catch (error) {
      throw new BadParquetError(`row ${row}, column "${name}": ${messageOf(error)}`, { cause: error });
    }
  }
  const text = JSON.stringify(Object.fromEntries(plain));
  if (text.length <= most.rowCharacters) return text;
  throw new BadParquetError(`row ${row} is longer than ${most.rowCharacters / 2 ** 20} MB`);
}

/** The value of a cell. Text that is JSON of an object or a list is read, as in CSV. */
function cellOf(value: unknown): unknown {
  if (typeof value !== "string" || !/^[[{]/.test(value)) return jsonOf(value);
  try {
    return JSON.parse(value) as unknown;
  } catch {
    return value;
  }
}

/** The value as JSON has it. Throws for values that JSON cannot hold without a loss. */
function jsonOf(value: unknown): unknown {
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "number":
      if (Number.isFinite(value)) return value;
      throw new Error(`${value} is not a number of JSON`);
    case "bigint": {
      const number = Number(value);
      if (Number.isSafeInteger(number)) return number;
      throw new Error(`${value} is too large for a number of JSON; store it as text`);
    }
    default:
  }
  if (value === null || value === undefined) return null;
  if (value instanceof Date) return value.toISOString();
  if (value instanceof Uint8Array) throw new Error("it holds bytes; store them as text");
  if (Array.isArray(value)) return value.map(jsonOf);
  if (ArrayBuffer.isView(value)) return Array.from(value as unknown as ArrayLike<unknown>, jsonOf);
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, jsonOf(one)]));
}

// Without its parent no one reads the rows.
process.on("disconnect", () => process.exit());
const [, , file = "", target = ""] = process.argv;
const problem = await convert({ file, target }).then(() => null, messageOf);
process.send!({ problem, isDone: true } satisfies ParquetResult);
