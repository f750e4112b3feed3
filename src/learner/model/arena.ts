// Memory of the kernels, handed out once and kept: a model's buffers live as long as the model.

import type { WasmMemory } from "./kernels.ts";

const pageBytes = 65_536;
/** Below lie the kernels' own constants. */
const firstByte = 65_536;

/** Hands out memory until `seal`, which gives the arrays to read and write it by. */
export class Arena {
  readonly #memory: WasmMemory;
  #end = firstByte;

  constructor(memory: WasmMemory) {
    this.#memory = memory;
  }

  /** A pointer to `count` floats (or integers of 32 bits), zero, on a cache line of their own, with 64 bytes to spare. */
  allocate(count: number): number {
    const start = this.#end;
    this.#end = Math.ceil((start + count * 4 + 64) / 64) * 64;
    const missing = Math.ceil((this.#end - this.#memory.buffer.byteLength) / pageBytes);
    if (missing > 0) this.#grow(missing);
    return start;
  }

  /** Views of the whole memory; index = pointer / 4. Nothing may be allocated afterwards. */
  seal(): { readonly floats: Float32Array; readonly integers: Uint32Array } {
    const { buffer } = this.#memory;
    return { floats: new Float32Array(buffer), integers: new Uint32Array(buffer) };
  }

  #grow(pages: number): void {
    try {
      this.#memory.grow(pages);
    } catch (cause) {
      const wanted = Math.round(this.#end / 2 ** 20);
      throw new RangeError(
        `Cannot allocate the buffers of a model: ${wanted} MiB are wanted, more than the host gives or the 4 GiB of ` +
          "WebAssembly; ask for fewer tokens, rows or pages.",
        { cause },
      );
    }
  }
}
