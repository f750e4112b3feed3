// Finds and compiles the kernels that the build made: with fused multiply-add if this host has it,
// else without.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { setFlagsFromString } from "node:v8";

import { ConfigurationError } from "../../core/failure.ts";

const pageBytes = 65_536;
/** The kernels' own constants lie below. */
const firstByte = 65_536;

/** Allocates memory until `seal`, which returns the arrays for reading and writing it. */
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

  /** Allocates one block of `count` for each name. */
  allocateEach<Name extends string>(names: readonly Name[], count: number): Readonly<Record<Name, number>> {
    return Object.fromEntries(names.map((name) => [name, this.allocate(count)])) as Record<Name, number>;
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
      const needed = Math.round(this.#end / 2 ** 20);
      throw new RangeError(
        `Cannot allocate the buffers of a model: ${needed} MiB are needed, more than the host allows or the 4 GiB of ` +
          "WebAssembly; configure fewer tokens, rows or pages.",
        { cause },
      );
    }
  }
}

/** The part of WebAssembly's interface that is used here; Node's types do not declare it. */
declare const WebAssembly: {
  readonly Module: new (bytes: Uint8Array) => WasmModule;
  readonly Memory: new (descriptor: { readonly initial: number; readonly maximum?: number }) => WasmMemory;
  readonly Instance: new (module: WasmModule, imports: object) => { readonly exports: unknown };
  validate(bytes: Uint8Array): boolean;
};

/** Compiled code; it can be sent to worker threads, which then need not compile it again. */
export type WasmModule = { readonly __wasmModule: unique symbol };

export type WasmMemory = {
  readonly buffer: ArrayBuffer;
  /** Grows the memory by `pages` pages of 64 kB. Detaches every array over the memory. */
  grow(pages: number): number;
};

type Kernel<Result extends number | void = void> = (...values: readonly number[]) => Result;

export type Kernels = {
  readonly adamw: Kernel;
  readonly addTo: Kernel;
  readonly attend: Kernel;
  readonly attendBackward: Kernel;
  readonly attendCached: Kernel;
  readonly gate: Kernel;
  readonly gateBackward: Kernel;
  readonly gatherRows: Kernel;
  readonly logProbabilities: Kernel;
  readonly logProbabilitiesBackward: Kernel;
  readonly multiply: Kernel;
  readonly multiplyTransposed: Kernel;
  readonly normalize: Kernel;
  readonly normalizeBackward: Kernel;
  readonly packColumns: Kernel;
  readonly packRows: Kernel;
  readonly rotate: Kernel;
  readonly scatterRows: Kernel;
  readonly scoreFloats: Kernel<number>;
  readonly sumOfSquares: Kernel<number>;
  readonly temper: Kernel<number>;
};

/** A new instance with a memory of its own. */
export function instantiateKernels(module: WasmModule): { readonly kernels: Kernels; readonly memory: WasmMemory } {
  const memory = new WebAssembly.Memory({ initial: 1, maximum: 65_536 });
  const { exports } = new WebAssembly.Instance(module, { env: { memory } });
  return { kernels: exports as Kernels, memory };
}

/** "relaxed-simd" rounds once where "simd" rounds twice, so their results differ in the last bits. */
export type KernelBuild = "relaxed-simd" | "simd";

export type CompiledKernels = { readonly build: KernelBuild; readonly module: WasmModule };

const compiled = new Map<KernelBuild, CompiledKernels>();

/**
 * The kernels, compiled once for each process. Default: the best build that this host supports. Throws a
 * `ConfigurationError` when a build is missing, or when this host does not support the given one.
 */
export function loadKernels(build?: KernelBuild): CompiledKernels {
  if (build === undefined)
    return loadKernels(isSupported("relaxed-simd", read("relaxed-simd")) ? "relaxed-simd" : "simd");
  const known = compiled.get(build);
  if (known !== undefined) return known;
  const bytes = read(build);
  if (!isSupported(build, bytes)) {
    throw new ConfigurationError(`Cannot load the kernels: this host's WebAssembly does not support "${build}".`);
  }
  const kernels = { build, module: new WebAssembly.Module(bytes) };
  compiled.set(build, kernels);
  return kernels;
}

function isSupported(build: KernelBuild, bytes: Uint8Array): boolean {
  if (WebAssembly.validate(bytes) || build === "simd") return WebAssembly.validate(bytes);
  // V8 before 11.4 (Node 20) enables relaxed SIMD only with a flag, which must be set before the
  // code is compiled.
  setFlagsFromString("--experimental-wasm-relaxed-simd");
  return WebAssembly.validate(bytes);
}

/** The build is three folders up, in dist/, both from src/ and from dist/. */
function read(build: KernelBuild): Uint8Array {
  const path = fileURLToPath(new URL(`../../../dist/learner/model/kernels/${build}.wasm`, import.meta.url));
  try {
    return readFileSync(path);
  } catch (cause) {
    throw new ConfigurationError(
      `Cannot load the kernels: "${path}" cannot be read; run "npm run build" in a clone, or install the package again.`,
      { cause },
    );
  }
}
