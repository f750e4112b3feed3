import { type FileHandle, open, rename, rm } from "node:fs/promises";

/** A file that has its name only when it is whole: written beside, renamed at the end. */
export class PartialFile {
  readonly #path: string;
  #handle: FileHandle;
  #bytes = 0;

  private constructor(path: string, handle: FileHandle) {
    this.#path = path;
    this.#handle = handle;
  }

  static async open(path: string): Promise<PartialFile> {
    return new PartialFile(path, await open(`${path}.part`, "w"));
  }

  async append(bytes: Uint8Array | string): Promise<void> {
    const data = typeof bytes === "string" ? Buffer.from(bytes, "utf8") : bytes;
    this.#bytes += data.length;
    await this.#handle.appendFile(data);
  }

  /** Bytes written. */
  async close(): Promise<number> {
    await this.#handle.datasync();
    await this.#handle.close();
    await rename(`${this.#path}.part`, this.#path);
    return this.#bytes;
  }

  async abandon(): Promise<void> {
    await this.#handle.close().catch(() => undefined);
    await rm(`${this.#path}.part`, { force: true });
  }
}
