// The kernels of `kernels/` as TypeScript sees them, and one instance of them over a private memory. Pointers are byte
// offsets into that memory, counts are floats or rows, flags are 0 or 1; `kernels/` says what each function does.

/** The little of WebAssembly's interface that is used; Node's types leave it out. */
declare const WebAssembly: {
  readonly Module: new (bytes: Uint8Array) => WasmModule;
  readonly Memory: new (descriptor: { readonly initial: number; readonly maximum?: number }) => WasmMemory;
  readonly Instance: new (module: WasmModule, imports: object) => { readonly exports: unknown };
  validate(bytes: Uint8Array): boolean;
};

/** Compiled code; may be sent to worker threads, which then need not compile it again. */
export type WasmModule = { readonly __wasmModule: unique symbol };

export type WasmMemory = {
  readonly buffer: ArrayBuffer;
  /** By pages of 64 kB. Detaches every array over the memory. */
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

export function compileKernels(bytes: Uint8Array): WasmModule {
  return new WebAssembly.Module(bytes);
}

/** True when this host can compile the bytes. */
export function isSupported(bytes: Uint8Array): boolean {
  return WebAssembly.validate(bytes);
}

/** A new instance with a memory of its own. */
export function instantiateKernels(module: WasmModule): { readonly kernels: Kernels; readonly memory: WasmMemory } {
  const memory = new WebAssembly.Memory({ initial: 1, maximum: 65_536 });
  const { exports } = new WebAssembly.Instance(module, { env: { memory } });
  return { kernels: exports as Kernels, memory };
}
