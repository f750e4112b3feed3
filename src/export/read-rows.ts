// Rows of a file, one after another, for checks that must be as fast as the disk: a line of JSON is
// split into its fields, and only the fields that are requested are read. Lists of numbers, which
// are nearly all of a row, are read from the bytes without a tree in between (`npm run bench --
// verify-rows`); everything else is left to JSON.parse. Memory is bounded by the longest row.

import { open, stat } from "node:fs/promises";
import { ConfigurationError, messageOf } from "../core/index.ts";
import { type FieldPlace, isSpace, splitFields } from "../system/json-fields.ts";

/** One row. Valid until the next row is requested. */
export interface RowFields {
  /** Number of the row in its file, from 1; in JSON lines the number of its line. */
  readonly line: number;
  has(name: string): boolean;
  /** A list of numbers; `null` for null. Throws a plain error if the field is absent or holds anything else. */
  numbers(name: string): ArrayLike<number> | null;
  /** The value of a field; `undefined` if it is absent. Throws a plain error for malformed JSON. */
  value(name: string): unknown;
}

/** A row longer than this is refused: a row is held whole. */
const longestRow = 512 * 2 ** 20;
const chunkBytes = 1 << 20;

/**
 * The rows of a file of JSON lines, or of Parquet if its name ends in ".parquet". A last line
 * without a line end is a row. Rejects with a `ConfigurationError` for a file that cannot be read;
 * a line that is not an object makes its row throw.
 */
export async function* readRows(path: string): AsyncGenerator<RowFields> {
  if (path.endsWith(".parquet")) yield* parquetRows(path);
  else yield* jsonRows(path);
}

async function* jsonRows(path: string): AsyncGenerator<RowFields> {
  const row = new JsonRow();
  const fail = (error: unknown): never => {
    throw unreadable(path, error);
  };
  // Checked first: a pipe without a writer would keep open() waiting.
  if (!(await stat(path).catch(fail)).isFile()) fail(new Error("it is not a regular file"));
  const file = await open(path, "r").catch(fail);
  try {
    let buffer: Buffer = Buffer.allocUnsafe(2 * chunkBytes);
    let [filled, line, isEnd] = [0, 0, false];
    while (!isEnd) {
      if (buffer.length - filled < chunkBytes) {
        if (filled > longestRow) {
          throw unreadable(path, new Error(`line ${line + 1} is longer than ${longestRow / 2 ** 20} MiB`));
        }
        const larger = Buffer.allocUnsafe(2 * buffer.length);
        buffer.copy(larger, 0, 0, filled);
        buffer = larger;
      }
      const { bytesRead } = await file.read(buffer, filled, buffer.length - filled, null);
      isEnd = bytesRead === 0;
      // No earlier byte is a line feed.
      let end = buffer.subarray(0, filled + bytesRead).indexOf(0x0a, filled);
      filled += bytesRead;
      let start = 0;
      for (; end !== -1; end = buffer.subarray(0, filled).indexOf(0x0a, start)) {
        line++;
        if (end > start) yield row.of(buffer.subarray(start, end), line);
        start = end + 1;
      }
      if (isEnd && start < filled) yield row.of(buffer.subarray(start, filled), line + 1);
      if (start > 0) buffer.copyWithin(0, start, filled);
      filled -= start;
    }
  } finally {
    await file.close();
  }
}

function unreadable(path: string, cause: unknown): ConfigurationError {
  return new ConfigurationError(`Cannot read rows from "${path}": ${messageOf(cause)}; name a file of exported rows.`, {
    cause,
  });
}

const comma = 0x2c;
const openList = 0x5b;

class JsonRow implements RowFields {
  line = 0;
  #bytes: Buffer = Buffer.alloc(0);
  /** First byte of each value and the byte after it; the last field of a name counts, as in JSON.parse. */
  readonly #places = new Map<string, FieldPlace>();
  /** Numbers of one field each, used again for the next row. */
  readonly #numbers = new Map<string, Float64Array>();
  #fault: Error | null = null;

  of(bytes: Buffer, line: number): this {
    this.line = line;
    this.#bytes = bytes;
    this.#fault = null;
    try {
      splitFields(bytes, this.#places);
    } catch (error) {
      this.#fault = new Error(`${messageOf(error)}; export the rows again`, { cause: error });
    }
    return this;
  }

  has(name: string): boolean {
    if (this.#fault !== null) throw this.#fault;
    return this.#places.has(name);
  }

  value(name: string): unknown {
    if (!this.has(name)) return undefined;
    const [start, end] = this.#places.get(name)!;
    return JSON.parse(this.#bytes.toString("utf8", start, end));
  }

  numbers(name: string): ArrayLike<number> | null {
    if (!this.has(name)) throw new Error(`it has no field "${name}"`);
    const [start, end] = this.#places.get(name)!;
    const bytes = this.#bytes;
    if (bytes[start] !== openList) {
      if (bytes.toString("latin1", start, end) === "null") return null;
      throw new Error(`its field "${name}" is not a list of numbers`);
    }
    const most = Math.ceil((end - start) / 2);
    let numbers = this.#numbers.get(name);
    if (numbers === undefined || numbers.length < most) {
      numbers = new Float64Array(most + (most >> 1));
      this.#numbers.set(name, numbers);
    }
    const count = parseNumbers(bytes, { start: start + 1, end: end - 1 }, numbers);
    if (count === null) throw new Error(`its field "${name}" is not a list of numbers`);
    return numbers.subarray(0, count);
  }
}

const powersOfTen = Float64Array.from({ length: 23 }, (_, power) => 10 ** power);
/** Digits that a double holds exactly. */
const exactDigits = 15;

/**
 * Reads numbers separated by commas into `into`. Returns how many; `null` if there is anything
 * else. A decimal of up to 15 digits is a whole number over a power of ten, both exact, so that one
 * division rounds as `Number()` does; all others are left to `Number()`.
 */
function parseNumbers(
  bytes: Buffer,
  { start, end }: { readonly start: number; readonly end: number },
  into: Float64Array,
): number | null {
  let count = 0;
  let at = start;
  while (at < end && isSpace(bytes[at])) at++;
  if (at === end) return 0;
  // The byte at `end` is the closing bracket, so that a run of digits needs no other bound.
  for (;;) {
    const first = at;
    const isNegative = bytes[at] === 0x2d;
    if (isNegative) at++;
    const digitsStart = at;
    let whole = 0;
    let byte = bytes[at]!;
    while (byte >= 0x30 && byte <= 0x39) {
      whole = whole * 10 + (byte - 0x30);
      byte = bytes[++at]!;
    }
    let digits = at - digitsStart;
    let decimals = 0;
    if (byte === 0x2e && digits > 0) {
      byte = bytes[++at]!;
      const decimalsStart = at;
      while (byte >= 0x30 && byte <= 0x39) {
        whole = whole * 10 + (byte - 0x30);
        byte = bytes[++at]!;
      }
      decimals = at - decimalsStart;
      digits = decimals === 0 ? exactDigits + 1 : digits + decimals;
    }
    if (byte !== comma && at < end && !isSpace(byte)) {
      while (at < end && bytes[at] !== comma && !isSpace(bytes[at])) at++;
      digits = exactDigits + 1;
    }
    if (digits === 0) return null;
    if (digits > exactDigits) {
      const text = bytes.toString("latin1", first, at);
      if (!/^(?:-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|NaN|-?Infinity)$/.test(text)) return null;
      into[count++] = Number(text);
    } else {
      const number = decimals === 0 ? whole : whole / powersOfTen[decimals]!;
      into[count++] = isNegative ? -number : number;
    }
    if (bytes[at] !== comma) {
      while (at < end && isSpace(bytes[at])) at++;
      if (at >= end) return count;
      if (bytes[at] !== comma) return null;
    }
    at++;
    while (isSpace(bytes[at])) at++;
    if (at >= end) return null;
  }
}

/** Bytes of columns that are decoded at once; a group of rows of our own files has fewer. */
const decodedBytes = 128 * 2 ** 20;

async function* parquetRows(path: string): AsyncGenerator<RowFields> {
  // Loaded only for Parquet files.
  const { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects } = await import("hyparquet");
  let line = 0;
  try {
    const file = await asyncBufferFromFile(path);
    const metadata = await parquetMetadataAsync(file);
    let groupStart = 0;
    for (const { num_rows, total_byte_size } of metadata.row_groups) {
      const groupEnd = groupStart + Number(num_rows);
      const step = Math.ceil(Number(num_rows) / Math.ceil(Math.max(1, Number(total_byte_size)) / decodedBytes));
      for (let rowStart = groupStart; rowStart < groupEnd; rowStart += step) {
        const rowEnd = Math.min(groupEnd, rowStart + step);
        const rows = await parquetReadObjects({ file, metadata, rowStart, rowEnd });
        for (const row of rows) yield new ObjectRow(row, ++line);
      }
      groupStart = groupEnd;
    }
  } catch (error) {
    throw unreadable(path, error);
  }
}

/** A row of Parquet, which holds values without a fixed shape as JSON text. */
class ObjectRow implements RowFields {
  readonly line: number;
  readonly #row: Readonly<Record<string, unknown>>;

  constructor(row: Readonly<Record<string, unknown>>, line: number) {
    this.#row = row;
    this.line = line;
  }

  has(name: string): boolean {
    return Object.hasOwn(this.#row, name) && this.#row[name] !== undefined;
  }

  numbers(name: string): ArrayLike<number> | null {
    if (!this.has(name)) throw new Error(`it has no field "${name}"`);
    const value = this.#row[name];
    if (value === null) return null;
    const isList = Array.isArray(value) || (ArrayBuffer.isView(value) && !(value instanceof DataView));
    const list = value as ArrayLike<unknown>;
    if (!isList || (list.length > 0 && typeof list[0] !== "number")) {
      throw new Error(`its field "${name}" is not a list of numbers`);
    }
    return value as unknown as ArrayLike<number>;
  }

  value(name: string): unknown {
    const value = this.has(name) ? this.#row[name] : undefined;
    const isJson = typeof value === "string" && /^[[{]/.test(value);
    return isJson ? (JSON.parse(value) as unknown) : value;
  }
}
