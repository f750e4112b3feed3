// Finds and compiles the kernels that the set-up has built: with fused multiply-add where this host has it, else without.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { setFlagsFromString } from "node:v8";

import { ConfigurationError } from "../../core/failure.ts";
import { compileKernels, isSupported, type WasmModule } from "./kernels.ts";

/** "relaxed-simd" rounds once where "simd" rounds twice, so their results differ in the last bits. */
export type KernelBuild = "relaxed-simd" | "simd";

export type CompiledKernels = { readonly build: KernelBuild; readonly module: WasmModule };

const compiled = new Map<KernelBuild, CompiledKernels>();

/**
 * The kernels, compiled once for each process. Default: the best build that this host supports. Throws a
 * `ConfigurationError` when a build is missing, or when this host does not support the one asked for.
 */
export function loadKernels(build?: KernelBuild): CompiledKernels {
  if (build !== undefined) return load(build);
  return canRelax(read("relaxed-simd")) ? load("relaxed-simd") : load("simd");
}

function load(build: KernelBuild): CompiledKernels {
  const known = compiled.get(build);
  if (known !== undefined) return known;
  const bytes = read(build);
  if (build === "relaxed-simd" ? !canRelax(bytes) : !isSupported(bytes)) {
    throw new ConfigurationError(`Cannot load the kernels: this host's WebAssembly does not support "${build}".`);
  }
  const kernels = { build, module: compileKernels(bytes) };
  compiled.set(build, kernels);
  return kernels;
}

/** V8 before 11.4 (Node 20) has relaxed SIMD behind a flag, which must be set before the code is compiled. */
function canRelax(bytes: Uint8Array): boolean {
  if (isSupported(bytes)) return true;
  setFlagsFromString("--experimental-wasm-relaxed-simd");
  return isSupported(bytes);
}

/** From src/ and from dist/ alike the build is three folders up, in dist/. */
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
