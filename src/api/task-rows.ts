// The tasks of an environment in a file: JSON lines, or CSV with a header. Rows are read one after
// the other, and a row that is too long, or not text, ends the reading before it fills the memory.
// The environment decides what the fields of a row mean.

import { createReadStream } from "node:fs";
import { extname, resolve } from "node:path";
import { ConfigurationError, messageOf } from "../core/index.ts";
import { requireRegular } from "../system/regular-file.ts";

export type TaskRow = {
  /** The value of a JSON line, or the cells of a row by the names of their columns. */
  readonly fields: unknown;
  /** Line of the file on which the row begins, from 1. */
  readonly line: number;
};

/** Maximum length of a row, in bytes of JSON or characters of CSV. */
const mostRowLength = 16 * 2 ** 20;

/** Maximum number of columns of CSV. */
const mostColumns = 1000;

/**
 * Reads the rows of a file named `path`, relative to `cwd`: CSV if its name ends in ".csv", JSON
 * lines otherwise. Empty lines are skipped. In CSV an empty cell is absent, and one that begins with
 * "{" or "[" is JSON. Throws a `ConfigurationError` that names the line.
 */
export async function* readTaskRows(path: string, cwd: string): AsyncGenerator<TaskRow> {
  const file = resolve(cwd, path);
  try {
    await requireRegular(file);
    yield* extname(file).toLowerCase() === ".csv" ? csvRows(file) : jsonRows(file);
  } catch (error) {
    if (error instanceof BadRowError) {
      const place = error.line === null ? `"${path}"` : `line ${error.line} of "${path}"`;
      throw new ConfigurationError(`Cannot read ${place}: ${error.message}; correct --env-tasks.`, { cause: error });
    }
    const { code } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    const states: Readonly<Record<string, string>> = { ENOENT: "there is no such file", EISDIR: "it is a folder" };
    throw new ConfigurationError(`Cannot read "${path}": ${states[code] ?? code}; correct --env-tasks.`, {
      cause: error,
    });
  }
}

class BadRowError extends Error {
  readonly line: number | null;

  constructor(line: number | null, problem: string) {
    super(problem);
    this.line = line;
  }
}

const tooLong = (line: number): BadRowError => new BadRowError(line, `it is longer than ${mostRowLength / 2 ** 20} MB`);

async function* jsonRows(file: string): AsyncGenerator<TaskRow> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let line = 0;
  const rowOf = (bytes: Buffer): TaskRow | null => {
    line++;
    let text: string;
    try {
      text = decoder.decode(bytes);
    } catch {
      throw new BadRowError(line, "it is not UTF-8");
    }
    if (text.trim() === "") return null;
    return { fields: parseJson(text, line), line };
  };
  // Parts of a line that has not ended yet.
  let parts: Buffer[] = [];
  let length = 0;
  for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>) {
    for (let start = 0; start < chunk.length;) {
      const end = chunk.indexOf(0x0a, start);
      const part = chunk.subarray(start, end === -1 ? undefined : end);
      length += part.length;
      if (length > mostRowLength) throw tooLong(line + 1);
      parts.push(part);
      if (end === -1) break;
      const row = rowOf(Buffer.concat(parts));
      if (row !== null) yield row;
      [parts, length, start] = [[], 0, end + 1];
    }
  }
  const row = length === 0 ? null : rowOf(Buffer.concat(parts));
  if (row !== null) yield row;
}

function parseJson(text: string, line: number): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new BadRowError(line, `it is not JSON (${messageOf(error)})`);
  }
}

async function* csvRows(file: string): AsyncGenerator<TaskRow> {
  let header: readonly string[] | null = null;
  for await (const { cells, line } of csvCells(file)) {
    if (header === null) {
      const twice = cells.find((name, at) => name === "" || cells.indexOf(name) !== at);
      if (twice !== undefined) throw new BadRowError(line, `its column "${twice}" has no name of its own`);
      header = cells;
      continue;
    }
    if (cells.length !== header.length) {
      throw new BadRowError(line, `it has ${cells.length} cells, and the header has ${header.length}`);
    }
    const fields = header.flatMap((name, at): [string, unknown][] => {
      const cell = cells[at]!;
      return cell === "" ? [] : [[name, /^[[{]/.test(cell) ? parseJson(cell, line) : cell]];
    });
    yield { fields: Object.fromEntries(fields), line };
  }
}

const quote = /"/g;
const anySpecial = /[",\r\n]/g;

type CsvRow = { readonly cells: readonly string[]; readonly line: number };

/** The cells of RFC 4180: separated by commas, in quotes if they hold a comma, a quote or the end of a line. */
async function* csvCells(file: string): AsyncGenerator<CsvRow> {
  let cells: string[] = [];
  let cell = "";
  let length = 0;
  let line = 1;
  let rowLine = 1;
  /** "quote": after a quote within quotes, which ends them or begins a second quote. */
  let state: "start" | "plain" | "quoted" | "quote" = "start";
  const endCell = (): void => {
    if (cells.push(cell) > mostColumns) throw new BadRowError(rowLine, `it has more than ${mostColumns} cells`);
    [cell, state] = ["", "start"];
  };
  const endRow = (): CsvRow | null => {
    const isEmpty = cells.length === 0 && cell === "" && state !== "quote";
    endCell();
    const row = isEmpty ? null : { cells, line: rowLine };
    [cells, length, rowLine] = [[], 0, line];
    return row;
  };
  for await (const text of textOf(file)) {
    for (let at = 0; at < text.length; at++) {
      const special = state === "quoted" ? quote : anySpecial;
      special.lastIndex = at;
      const stop = special.exec(text)?.index ?? text.length;
      length += stop - at + 1;
      if (length > mostRowLength) throw tooLong(rowLine);
      if (stop > at) {
        const run = text.slice(at, stop);
        if (state === "quote") throw new BadRowError(line, "text follows a closing quote");
        if (state === "start") state = "plain";
        for (let end = run.indexOf("\n"); end !== -1; end = run.indexOf("\n", end + 1)) line++;
        cell += run;
      }
      at = stop;
      const character = text[stop];
      if (character === '"') {
        if (state === "quoted") {
          state = "quote";
        } else if (state === "plain") {
          cell += character;
        } else {
          if (state === "quote") cell += character;
          state = "quoted";
        }
      } else if (character === ",") {
        endCell();
      } else if (character === "\n") {
        line++;
        const row = endRow();
        if (row !== null) yield row;
      }
    }
  }
  if (state === "quoted") throw new BadRowError(rowLine, "a quote does not end");
  const last = endRow();
  if (last !== null) yield last;
}

/** Pieces of a file of UTF-8, without a byte order mark. */
async function* textOf(file: string): AsyncGenerator<string> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  try {
    for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>) {
      yield decoder.decode(chunk, { stream: true });
    }
    yield decoder.decode();
  } catch (error) {
    if (error instanceof TypeError) throw new BadRowError(null, "it is not UTF-8");
    throw error;
  }
}
