// Lines that wait for the next write, and those of the write under way: two buffers that change places.

import { ByteWriter } from "./byte-writer.ts";

export class OutgoingLines {
  #waiting = new ByteWriter();
  #leaving = new ByteWriter();

  /** Adds what `write` writes, and nothing when it throws. Returns how many bytes that are. */
  add(write: (writer: ByteWriter) => void): number {
    const writer = this.#waiting;
    const start = writer.length;
    try {
      write(writer);
    } catch (error) {
      writer.cut(start);
      throw error;
    }
    return writer.length - start;
  }

  /** Everything that was added since the last call, whose bytes nobody may need any more. */
  take(): Buffer {
    [this.#waiting, this.#leaving] = [this.#leaving, this.#waiting];
    this.#waiting.cut(0);
    return this.#leaving.view();
  }
}
