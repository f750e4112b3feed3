// Marks that people give episodes: right, or wrong and whose fault, with the reason. They are lines
// of a file beside the run, to which several viewers may append: every mark is written whole, a mark
// that replaces one is a further line, and the last line of an episode counts.

import { constants, statSync } from "node:fs";
import { access, type FileHandle, open } from "node:fs/promises";
import { dirname, join } from "node:path";
import { ConfigurationError, messageOf } from "../core/index.ts";
import { wellFormed } from "../lib/text.ts";
import { objectOf, textOf } from "./episode-store.ts";
import { type Mark, markFaults, type PlainJson, type Row } from "./wire/index.ts";

/** Maximum size of the file in bytes, and of a reason in UTF-16 code units. */
const mostBytes = 64 << 20;
const mostReason = 2000;

type AnnotationFacts = Pick<Row, "id" | "taskId" | "taskIndex" | "sampleIndex">;

/** Path of the annotations of a run folder, or of a file or folder of another tool. */
export function annotationPath(location: string): string {
  const isFolder = statSync(location, { throwIfNoEntry: false })?.isDirectory() === true;
  return isFolder ? join(location, "annotations.jsonl") : `${location}.annotations.jsonl`;
}

export class Annotations {
  readonly path: string;
  #marks = new Map<string, Mark>();
  #unreadable = 0;
  #fault: string | null = null;
  /** Bytes that were read, all of which are whole lines. */
  #read = 0;
  #file = "";
  #version = 0;
  #refreshing = Promise.resolve();

  constructor(path: string) {
    this.path = path;
  }

  /** The marks by the id of their episode, as of the last refresh. */
  get marks(): ReadonlyMap<string, Mark> {
    return this.#marks;
  }

  /** Number of lines that are not marks. */
  get unreadable(): number {
    return this.#unreadable;
  }

  /** Why the file cannot be read; `null` if it can, or does not exist. */
  get fault(): string | null {
    return this.#fault;
  }

  /** Differs after every change. */
  get version(): string {
    return `${this.#version}`;
  }

  /** Reads lines that were added. A last line without an end is being written. Never rejects. */
  refresh(): Promise<void> {
    // One after the other, because each begins where the one before ended.
    this.#refreshing = this.#refreshing
      .then(() => this.#readOn())
      .catch((error: unknown) => this.#forget(messageOf(error)));
    return this.#refreshing;
  }

  async #readOn(): Promise<void> {
    let file: FileHandle;
    try {
      // A pipe would wait for its writer.
      file = await open(this.path, constants.O_RDONLY | constants.O_NONBLOCK);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
      return this.#forget(null);
    }
    try {
      const found = await file.stat();
      if (!found.isFile()) return this.#forget("it is not a file");
      if (found.size > mostBytes) return this.#forget(`it has more than ${mostBytes} bytes`);
      const name = `${found.dev}:${found.ino}`;
      // Another file, or one that was cut.
      if (name !== this.#file || found.size < this.#read) this.#forget(null);
      this.#file = name;
      this.#fault = null;
      if (found.size === this.#read) return;
      const bytes = Buffer.alloc(found.size - this.#read);
      const { bytesRead } = await file.read(bytes, 0, bytes.length, this.#read);
      const end = bytes.lastIndexOf(0x0a, bytesRead - 1) + 1;
      if (end === 0) return;
      for (const line of bytes.toString("utf8", 0, end).split("\n")) if (line.trim() !== "") this.#readLine(line);
      this.#read += end;
      this.#version++;
    } finally {
      await file.close();
    }
  }

  /**
   * Writes a mark, or that there is none any more. Rejects with a `ConfigurationError` if the file
   * cannot be written.
   */
  async add({ id, taskId, taskIndex, sampleIndex }: AnnotationFacts, mark: Omit<Mark, "at"> | null): Promise<void> {
    const facts = { episode: id, task_id: taskId, task: taskIndex, trial: sampleIndex };
    const stated = { verdict: mark?.verdict ?? null, fault: mark?.fault ?? null, why: mark?.why ?? "" };
    const line = `${JSON.stringify({ format: 1, at: new Date().toISOString(), ...facts, ...stated })}\n`;
    try {
      await appendLine(this.path, line);
    } catch (error) {
      throw new ConfigurationError(
        `Cannot keep the mark in "${this.path}": ${messageOf(error)}; make the folder writable, or view a copy of the run.`,
        { cause: error },
      );
    }
    await this.refresh();
  }

  /** Why no mark can be written; `null` if one can. */
  async obstacle(): Promise<string | null> {
    const canWrite = async (path: string): Promise<boolean> => access(path, constants.W_OK).then(() => true, () => false); // prettier-ignore
    const found = statSync(this.path, { throwIfNoEntry: false });
    if (await canWrite(found === undefined ? dirname(this.path) : this.path)) return null;
    return "Marks cannot be kept: the folder of the run cannot be written. View a copy of it.";
  }

  #readLine(line: string): void {
    let value: PlainJson = null;
    try {
      value = JSON.parse(line) as PlainJson;
    } catch {
      // Counted below.
    }
    const facts = objectOf(value);
    const [episode, verdict] = [textOf(facts?.["episode"]), facts?.["verdict"]];
    const mark = verdict === null ? null : readMark(facts);
    if (facts === null || episode === null || mark === undefined) this.#unreadable++;
    else if (mark === null) this.#marks.delete(episode);
    else this.#marks.set(episode, { ...mark, at: textOf(facts["at"]) ?? "" });
  }

  #forget(fault: string | null): void {
    if (this.#read > 0 || fault !== this.#fault) this.#version++;
    this.#marks = new Map();
    [this.#unreadable, this.#read, this.#file, this.#fault] = [0, 0, "", fault];
  }
}

/** A mark from a line or a request; `undefined` for a value that is not one. */
export function readMark(value: PlainJson | undefined): Omit<Mark, "at"> | undefined {
  const facts = objectOf(value);
  const { verdict = null, fault = null, why = "" } = facts ?? {};
  if (verdict !== "right" && verdict !== "wrong") return undefined;
  const found = markFaults.find((one) => one === fault) ?? null;
  if (typeof why !== "string" || (fault !== null && (found === null || verdict === "right"))) return undefined;
  return { verdict, fault: found, why: wellFormed(why).slice(0, mostReason) };
}

/**
 * Appends a line in one write, so that lines of several writers do not mix; after the rest of a
 * writer that was killed it begins a new line. Links are not followed.
 */
async function appendLine(path: string, line: string): Promise<void> {
  const { O_RDWR, O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK } = constants;
  const file = await open(path, O_RDWR | O_APPEND | O_CREAT | (O_NOFOLLOW ?? 0) | (O_NONBLOCK ?? 0), 0o666);
  try {
    const found = await file.stat();
    if (!found.isFile()) throw new Error("it is not a file");
    if (found.size + line.length * 3 > mostBytes) throw new Error(`it would exceed ${mostBytes} bytes`);
    const last = Buffer.alloc(1);
    const isTorn = found.size > 0 && (await file.read(last, 0, 1, found.size - 1)).bytesRead === 1 && last[0] !== 0x0a;
    const bytes = Buffer.from(isTorn ? `\n${line}` : line);
    const { bytesWritten } = await file.write(bytes);
    if (bytesWritten !== bytes.length) throw new Error("the disk is full");
    await file.datasync();
  } finally {
    await file.close();
  }
}
