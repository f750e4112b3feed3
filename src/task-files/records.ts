// Records of a file of tasks: lines of JSON, or rows of CSV (RFC 4180) below a header. The file is
// split on its bytes, so that the place of each record is known and one record can be read again
// without the others. A record that is too long, or not text, is refused before it fills the memory.

import { Buffer } from "node:buffer";
import { createReadStream } from "node:fs";
import { TextDecoder } from "node:util";
import { messageOf } from "../core/index.ts";

export type TextKind = "jsonl" | "csv";

/** A record as it lies in its file, without the end of its line. */
export type RawRecord = {
  readonly bytes: Buffer;
  /** Position of its first byte in the file. */
  readonly offset: number;
  /** Line of the file on which it begins, from 1. */
  readonly line: number;
};

/** A row that cannot be read; `line` is `null` if the whole file is at fault. */
export class BadRowError extends Error {
  readonly line: number | null;

  constructor(line: number | null, problem: string) {
    super(problem);
    this.line = line;
  }
}

/** Maximum length of a record in bytes. */
export const longestRecord = 16 * 2 ** 20;

/** Maximum number of columns of CSV. */
const mostColumns = 1000;

const chunkBytes = 2 ** 18;
const byteOrderMark = [0xef, 0xbb, 0xbf];

/**
 * Records of a file in order, in batches, empty lines included. Rejects with a `BadRowError`, or
 * with the system's error.
 */
export async function* readRecords(file: string, kind: TextKind): AsyncGenerator<readonly RawRecord[]> {
  const splitter = new RecordSplitter(kind);
  for await (const chunk of createReadStream(file, { highWaterMark: chunkBytes }) as AsyncIterable<Buffer>) {
    yield splitter.push(chunk);
  }
  yield splitter.end();
}

/** State of the cell that is being split: "quote" is after a quote that ends the cell or doubles. */
type CellState = "start" | "plain" | "quoted" | "quote";

class RecordSplitter {
  readonly #isCsv: boolean;
  /** Parts of the record that has not ended yet. */
  #parts: Buffer[] = [];
  #length = 0;
  /** Position of the next chunk in the file. */
  #position = 0;
  #offset = 0;
  #line = 1;
  #recordLine = 1;
  #state: CellState = "start";

  constructor(kind: TextKind) {
    this.#isCsv = kind === "csv";
  }

  push(chunk: Buffer): readonly RawRecord[] {
    const records: RawRecord[] = [];
    const base = this.#position;
    let start = 0;
    if (base === 0 && byteOrderMark.every((byte, at) => chunk[at] === byte)) {
      start = byteOrderMark.length;
      this.#offset = start;
    }
    for (;;) {
      const end = this.#isCsv ? this.#rowEnd(chunk, start) : chunk.indexOf(0x0a, start);
      const part = chunk.subarray(start, end === -1 ? undefined : end);
      this.#length += part.length;
      if (this.#length > longestRecord) {
        throw new BadRowError(this.#recordLine, `it is longer than ${longestRecord / 2 ** 20} MB`);
      }
      if (part.length > 0) this.#parts.push(part);
      if (end === -1) break;
      this.#line++;
      start = end + 1;
      records.push(this.#take(base + start));
    }
    this.#position += chunk.length;
    return records;
  }

  end(): readonly RawRecord[] {
    if (this.#state === "quoted") throw new BadRowError(this.#recordLine, "a quote does not end");
    return this.#length === 0 ? [] : [this.#take(this.#position)];
  }

  #take(next: number): RawRecord {
    const [only] = this.#parts;
    const bytes = this.#parts.length === 1 ? only! : Buffer.concat(this.#parts);
    const record = { bytes, offset: this.#offset, line: this.#recordLine };
    [this.#parts, this.#length, this.#offset, this.#recordLine] = [[], 0, next, this.#line];
    return record;
  }

  /** Position of the line feed that ends the row; -1 if the row goes on in the next chunk. */
  #rowEnd(chunk: Buffer, start: number): number {
    let state = this.#state;
    let at = start;
    for (; at < chunk.length; at++) {
      const byte = chunk[at];
      if (state === "quoted") {
        if (byte === 0x22) state = "quote";
        else if (byte === 0x0a) this.#line++;
      } else if (byte === 0x0a) {
        this.#state = "start";
        return at;
      } else if (byte === 0x2c) {
        state = "start";
      } else if (byte === 0x22) {
        if (state !== "plain") state = "quoted";
      } else if (byte !== 0x0d) {
        state = "plain";
      }
    }
    this.#state = state;
    return -1;
  }
}

/** A row: its value, and the value as one line of JSON. */
export type ParsedRow = { readonly fields: unknown; readonly text: string };

const jsonDecoder = new TextDecoder("utf-8", { fatal: true });
const csvDecoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The value of a line of JSON; `null` if the line is empty. Throws a `BadRowError`. */
export function parseJsonRecord({ bytes, line }: Omit<RawRecord, "offset">): ParsedRow | null {
  const text = decode(jsonDecoder, bytes, line).trim();
  return text === "" ? null : { fields: parseJson(text, line), text };
}

/**
 * The cells of a row by the names of their columns; `null` if the line is empty. An empty cell is
 * absent, and one that begins with "{" or "[" is JSON. Throws a `BadRowError`.
 */
export function parseCsvRecord(record: Omit<RawRecord, "offset">, header: readonly string[]): ParsedRow | null {
  const { line } = record;
  const cells = csvCells(record);
  if (cells === null) return null;
  if (cells.length !== header.length) {
    throw new BadRowError(line, `it has ${cells.length} cells, and the header has ${header.length}`);
  }
  const fields = Object.fromEntries(
    header.flatMap((name, at): [string, unknown][] => {
      const cell = cells[at]!;
      return cell === "" ? [] : [[name, /^[[{]/.test(cell) ? parseJson(cell, line) : cell]];
    }),
  );
  return { fields, text: JSON.stringify(fields) };
}

/** The names of the columns; `null` if the line is empty. Throws a `BadRowError`. */
export function parseCsvHeader(record: Omit<RawRecord, "offset">): readonly string[] | null {
  const names = csvCells(record);
  const seen = new Set<string>();
  for (const name of names ?? []) {
    if (name === "" || seen.has(name))
      throw new BadRowError(record.line, `its column "${name}" has no name of its own`);
    seen.add(name);
  }
  return names;
}

const special = /[",\r]/g;
const quote = /"/g;

/** The cells of one row; `null` if the line is empty. */
function csvCells({ bytes, line }: Omit<RawRecord, "offset">): readonly string[] | null {
  const text = decode(csvDecoder, bytes, line);
  if (text === "" || text === "\r") return null;
  const cells: string[] = [];
  let cell = "";
  let state: CellState = "start";
  const endCell = (): void => {
    if (cells.push(cell) > mostColumns) throw new BadRowError(line, `it has more than ${mostColumns} cells`);
    [cell, state] = ["", "start"];
  };
  for (let at = 0; at < text.length; at++) {
    const next = state === "quoted" ? quote : special;
    next.lastIndex = at;
    const stop = next.exec(text)?.index ?? text.length;
    if (stop > at) {
      if (state === "quote") throw new BadRowError(line, "text follows a closing quote");
      if (state === "start") state = "plain";
      cell += text.slice(at, stop);
    }
    at = stop;
    const character = text[stop];
    if (character === ",") {
      endCell();
    } else if (character === '"') {
      if (state === "quoted") {
        state = "quote";
      } else if (state === "plain") {
        cell += character;
      } else {
        if (state === "quote") cell += character;
        state = "quoted";
      }
    }
  }
  endCell();
  return cells;
}

function decode(decoder: TextDecoder, bytes: Buffer, line: number): string {
  try {
    return decoder.decode(bytes);
  } catch {
    throw new BadRowError(line, "it is not UTF-8");
  }
}

function parseJson(text: string, line: number): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new BadRowError(line, `it is not JSON (${messageOf(error)})`);
  }
}
