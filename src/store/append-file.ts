// A file that only grows, for one writer that waits for each write.

import { type FileHandle, open } from "node:fs/promises";

export class AppendFile {
  readonly #handle: FileHandle;
  #size: number;

  private constructor(handle: FileHandle, size: number) {
    this.#handle = handle;
    this.#size = size;
  }

  /** A new file; rejects when there is one. */
  static async create(path: string): Promise<AppendFile> {
    return new AppendFile(await open(path, "ax"), 0);
  }

  /** A file that is there, cut to its first `size` bytes. */
  static async reopen(path: string, size: number): Promise<AppendFile> {
    const handle = await open(path, "a");
    if ((await handle.stat()).size > size) await handle.truncate(size);
    return new AppendFile(handle, size);
  }

  /** Bytes that the file holds. */
  get size(): number {
    return this.#size;
  }

  async append(content: string | Buffer): Promise<void> {
    let rest = typeof content === "string" ? Buffer.from(content) : content;
    while (rest.length > 0) {
      const { bytesWritten } = await this.#handle.write(rest);
      this.#size += bytesWritten;
      rest = rest.subarray(bytesWritten);
    }
  }

  /** Forces everything to the disk. */
  async sync(): Promise<void> {
    await this.#handle.datasync();
  }

  async close(): Promise<void> {
    await this.#handle.close();
  }
}
