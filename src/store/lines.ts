// Files of lines: read one chunk at a time and split only at line feeds (JSON may hold other line
// separators), checked by a checksum, appended to by one writer, and written in batches.
//
// Every line of episodes.jsonl and groups.jsonl ends with `,"crc32":"<8 hexadecimal digits>"}`:
// CRC-32 of the line's bytes before that field. It finds lines that a disk, a copy or an editor has
// changed.

import { createReadStream } from "node:fs";
import { type FileHandle, open, stat } from "node:fs/promises";
import { crc32 } from "node:zlib";

import { ConfigurationError } from "../core/index.ts";
import type { ByteWriter } from "./byte-writer.ts";
import { Disk } from "./disk.ts";
import { runFiles, type TornLine } from "./run-store.ts";
import { requireRegular } from "../system/regular-file.ts";

/** A line without its line end, and its place. */
export type RawLine = { readonly bytes: Buffer; readonly start: number };

/**
 * The lines of a file as bytes, which must be copied if they are kept. Text after the last line
 * feed is an unfinished line of a process that died: it is omitted and reported. A range begins at
 * the start of a line.
 */
export async function* readRawLines(
  file: string,
  onTornLine: (torn: TornLine) => void,
  { start: first = 0, end: last = Infinity }: { readonly start?: number; readonly end?: number } = {},
): AsyncGenerator<RawLine> {
  if (last <= first) return;
  let rest: Buffer[] = [];
  let position = first;
  await requireRegular(file);
  // `end` of a read stream is inclusive.
  const chunks = createReadStream(file, { highWaterMark: 1 << 20, start: first, end: last - 1 });
  for await (const chunk of chunks as AsyncIterable<Buffer>) {
    let start = 0;
    for (let end = chunk.indexOf(0x0a); end !== -1; end = chunk.indexOf(0x0a, start)) {
      const part = chunk.subarray(start, end);
      const bytes = rest.length === 0 ? part : Buffer.concat([...rest, part]);
      yield { bytes, start: position };
      position += bytes.length + 1;
      rest = [];
      start = end + 1;
    }
    if (start < chunk.length) rest.push(chunk.subarray(start));
  }
  const bytes = rest.reduce((sum, part) => sum + part.length, 0);
  if (bytes > 0) onTornLine({ file, bytes });
}

/** A line with a valid checksum, and its place for messages. */
export type CheckedLine = RawLine & { readonly where: string; readonly crc32: string };

/**
 * The lines of episodes.jsonl or groups.jsonl of a run, read like `readRawLines` and checked like
 * `checkLine`.
 */
export async function* readCheckedLines(
  file: string,
  onTornLine: (torn: TornLine) => void,
  start = 0,
): AsyncGenerator<CheckedLine> {
  let number = 0;
  for await (const line of readRawLines(file, onTornLine, { start })) {
    const place = start === 0 ? `line ${++number}` : `at byte ${line.start}`;
    const sum = checkLine(line.bytes, { file, place });
    yield { ...line, crc32: sum, where: `"${file}" ${place}` };
  }
}

/** Length of the checksum field in bytes, with its comma and the closing brace. */
const fieldBytes = 20;

/** CRC-32 in eight hexadecimal digits. */
export function checksum(bytes: Buffer): string {
  return crc32(bytes).toString(16).padStart(8, "0");
}

/** Ends the line whose JSON object was written from `start` on: adds the checksum and the line end. Returns the checksum. */
export function endLine(writer: ByteWriter, start: number): string {
  writer.cut(writer.length - 1);
  const sum = checksum(writer.view(start));
  writer.ascii(checksumField(sum));
  writer.ascii("\n");
  return sum;
}

/**
 * Returns the checksum of a line (without its end). Throws a `ConfigurationError` for a corrupted
 * line, with its place and a remedy.
 */
export function checkLine(line: Buffer, { file, place }: { readonly file: string; readonly place: string }): string {
  const end = Math.max(0, line.length - fieldBytes);
  const found = line.toString("latin1", end);
  const computed = checksum(line.subarray(0, end));
  if (found === checksumField(computed)) return computed;
  const hasField = found.includes('"crc32"');
  const [, kind, id] = /^\{"(id|groupId)":("(?:[^"\\]|\\.)*")/.exec(line.toString("utf8", 0, 1024)) ?? [];
  const whose = id === undefined ? "" : ` (${kind === "id" ? "episode" : "group"} ${id})`;
  const fault = hasField ? "its checksum is another one" : "it has no checksum at its end";
  const isGroups = file.endsWith(runFiles.groups);
  const [lost, again] = isGroups
    ? ["this line and those after it", "decides their groups"]
    : ["this line", "runs the episode"];
  throw new ConfigurationError(
    `Cannot read "${file}" ${place}${whose}: it is not what was written; ${fault}. Restore the file from a copy, or remove ${lost}, ` +
      `set "status" in ${runFiles.manifest} to "running" and resume the run, which ${again} again.`,
  );
}

function checksumField(sum: string): string {
  return `,"crc32":"${sum}"}`;
}

/** The checksum stated in a line (without its end) if the line matches it; otherwise `null`. */
export function validChecksum(line: Buffer): string | null {
  const stated = statedChecksum(line);
  return stated === checksum(line.subarray(0, Math.max(0, line.length - fieldBytes))) ? stated : null;
}

/** The checksum stated in a line (without its end); `null` if it has none. */
export function statedChecksum(line: Buffer): string | null {
  return (
    /,"crc32":"([0-9a-f]{8})"\}$/.exec(line.toString("latin1", Math.max(0, line.length - fieldBytes)))?.[1] ?? null
  );
}

/** Reads bytes of a file; fewer if the file ends before. */
export async function readAt(file: string | FileHandle, start: number, length: number): Promise<Buffer> {
  if (typeof file === "string") await requireRegular(file);
  const handle = typeof file === "string" ? await open(file, "r") : file;
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.allocUnsafe(length), 0, length, start);
    return buffer.subarray(0, bytesRead);
  } finally {
    if (typeof file === "string") await handle.close();
  }
}

/**
 * Maximum length of an index line, except with very long ids; a longer line is found in another
 * way.
 */
export const lineReach = 65_536;

/** The end of the last whole line before `size`. */
export async function endOfLines(path: string, size: number): Promise<number> {
  if (size === 0) return 0;
  await requireRegular(path);
  const handle = await open(path, "r");
  try {
    for (let end = size; end > 0;) {
      const start = Math.max(0, end - lineReach);
      const at = (await readAt(handle, start, end - start)).lastIndexOf(0x0a);
      if (at !== -1) return start + at + 1;
      end = start;
    }
    return 0;
  } finally {
    await handle.close();
  }
}

/** Interval of checks that a file still has its name. */
const lookMs = 1000;
/** More bytes than remain in a disk block, and than a line of a request has. */
const probeBytes = 8192;

/**
 * A file that only grows, for one writer that awaits each write. A refused write continues where it
 * stopped, as long as the disk has patience.
 */
export class AppendFile {
  readonly #path: string;
  readonly #handle: FileHandle;
  readonly #disk: Disk;
  #size: number;
  /** True after a failed write: the file's content after `#size` is unknown. */
  #isUnsure = false;
  #lookedAt = performance.now();

  private constructor(handle: FileHandle, { path, size, disk }: FilePlace) {
    this.#handle = handle;
    this.#path = path;
    this.#size = size;
    this.#disk = disk;
  }

  /** Creates a file; rejects if it exists. */
  static async create(path: string, disk = new Disk(path)): Promise<AppendFile> {
    return new AppendFile(await open(path, "ax"), { path, size: 0, disk });
  }

  /** Opens an existing file, cut to its first `size` bytes. */
  static async reopen(path: string, size: number, disk = new Disk(path)): Promise<AppendFile> {
    const handle = await open(path, "a");
    try {
      if ((await handle.stat()).size > size) await handle.truncate(size);
    } catch (error) {
      await handle.close();
      throw error;
    }
    return new AppendFile(handle, { path, size, disk });
  }

  /** Size of the file in bytes. */
  get size(): number {
    return this.#size;
  }

  async append(content: string | Buffer): Promise<void> {
    let rest = typeof content === "string" ? Buffer.from(content) : content;
    await this.#disk.repeat(() =>
      this.#write(rest, (bytesWritten) => {
        this.#size += bytesWritten;
        rest = rest.subarray(bytesWritten);
      }),
    );
  }

  /** Appends at once or not at all. */
  async appendOnce(content: string): Promise<void> {
    let written = 0;
    const bytes = Buffer.from(content);
    if (this.#disk.isFinal) await this.#disk.repeat(() => Promise.resolve());
    await this.#write(bytes, (bytesWritten) => (written += bytesWritten));
    this.#size += written;
  }

  /** Resolves once the file can be appended to; its content stays the same. */
  async probe(): Promise<void> {
    await this.#disk.repeat(async () => {
      await this.#write(Buffer.alloc(probeBytes, " "), () => undefined);
      this.#isUnsure = true;
      await this.#look();
      this.#isUnsure = false;
    });
  }

  /**
   * Syncs the file to the disk. Data lost by a failed sync cannot be recovered by a further one, so
   * nothing is written after it.
   */
  async sync(): Promise<void> {
    try {
      await this.#handle.datasync();
    } catch (error) {
      this.#disk.fail(error);
      throw error;
    }
  }

  async close(): Promise<void> {
    await this.#handle.close();
  }

  /** `onWritten` receives the size of each part that was written. */
  async #write(bytes: Buffer, onWritten: (bytesWritten: number) => void): Promise<void> {
    if (this.#isUnsure || performance.now() - this.#lookedAt > lookMs) await this.#look();
    this.#isUnsure = true;
    for (let rest = bytes; rest.length > 0;) {
      const { bytesWritten } = await this.#handle.write(rest);
      rest = rest.subarray(bytesWritten);
      onWritten(bytesWritten);
    }
    this.#isUnsure = false;
  }

  /**
   * Removes the remains of a failed write, and detects that the file was removed, so that further
   * writes would be lost.
   */
  async #look(): Promise<void> {
    this.#lookedAt = performance.now();
    const { size, nlink } = await this.#handle.stat();
    if (nlink === 0 || (this.#isUnsure && size < this.#size)) {
      const state = nlink === 0 ? "the file was removed" : `the file was cut to ${size} bytes by another program`;
      const error = Object.assign(new Error(`ENOENT: ${state}, write "${this.#path}"`), { code: "ENOENT" });
      this.#disk.fail(error);
      throw error;
    }
    if (this.#isUnsure && size > this.#size) await this.#handle.truncate(this.#size);
  }
}

type FilePlace = { readonly path: string; readonly size: number; readonly disk: Disk };

/**
 * Minimum time between the beginnings of two writes. A write costs the same for one line and for a
 * hundred.
 */
const spacingMs = 2;

/**
 * Items wait in memory during a write and shortly after it, and are then written together:
 * thousands of episodes share few writes, in the order they came, and none blocks the event loop.
 * One batch at a time goes to `write`. After a failed write every later call rejects with the same
 * error.
 */
export class BatchQueue<T> {
  readonly #write: (batch: readonly T[]) => Promise<void>;
  #waiting: T[] = [];
  /** The write that will take the waiting items; `null` when nothing waits. */
  #next: Promise<void> | null = null;
  #last: Promise<unknown> = Promise.resolve();
  #spacing: Promise<void> = Promise.resolve();

  constructor(write: (batch: readonly T[]) => Promise<void>) {
    this.#write = write;
  }

  /** Resolves once the item is written. */
  add(item: T): Promise<void> {
    this.#waiting.push(item);
    if (this.#next === null) {
      const next = this.#last.then(() => this.#writeWaiting());
      this.#next = next;
      // A failed write is never followed by another: later items may depend on those that were
      // lost.
      this.#last = next.then(() => this.#spacing);
      // The error is reported by `next`; without another item this promise is never awaited.
      this.#last.catch(() => undefined);
    }
    return this.#next;
  }

  /**
   * Resolves when nothing waits any more, also after a failed write, which `add` has already
   * reported.
   */
  async idle(): Promise<void> {
    await this.#last.catch(() => undefined);
  }

  #writeWaiting(): Promise<void> {
    const batch = this.#waiting;
    this.#waiting = [];
    this.#next = null;
    this.#spacing = new Promise((resolve) => setTimeout(resolve, spacingMs));
    return this.#write(batch);
  }
}

/** Size of a file; 0 for a missing file, whose process died before creating it. */
export async function sizeOf(file: string): Promise<number> {
  return stat(file).then(
    ({ size }) => size,
    () => 0,
  );
}
