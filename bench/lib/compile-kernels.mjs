// Compiles AssemblyScript in memory, so that benchmarks can compare kernels that are not built: the
// real sources with one constant changed, or a loop written for the purpose.

import { readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";

import compiler from "assemblyscript/asc";

const folder = fileURLToPath(new URL("../../kernels/", import.meta.url));

/** The kernels with relaxed SIMD; `change` edits the text of a source file by its name. */
export function compileKernels(change = (_file, text) => text) {
  return compile((name) => {
    if (!name.startsWith("kernels/")) return null;
    return change(basename(name), readFileSync(join(folder, basename(name)), "utf8"));
  });
}

/** Compiles one self-contained source. */
export function compileSource(text) {
  return compile((name) => (name === "kernels/index.ts" ? text : null));
}

async function compile(readFile) {
  let bytes = null;
  const flags = "--optimizeLevel 3 --runtime stub --memoryBase 1024 --disableWarning 112 --noAssert --importMemory";
  const { error } = await compiler.main(
    [
      "kernels/index.ts",
      "--outFile",
      "out.wasm",
      "--enable",
      "simd,relaxed-simd",
      "--noExportMemory",
      ...flags.split(" "),
    ],
    {
      readFile,
      writeFile: (name, content) => {
        if (name === "out.wasm") bytes = content;
      },
      listFiles: () => [],
      stderr: process.stderr,
    },
  );
  if (error !== null || bytes === null)
    throw error ?? new Error("Cannot compile kernels for a benchmark: nothing came out.");
  return bytes;
}
