// Compiles kernels/ to dist/learner/model/kernels/, once with relaxed SIMD (fused multiply-add) and
// once without, for hosts that lack it. Part of the set-up, which checks `areKernelsStale` first,
// because the compiler takes seconds. Not for development flags; `npx asc kernels/index.ts
// --textFile` shows the compiled code of a change.

import { existsSync, mkdirSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { root } from "./run-command.mjs";

const sources = join(root, "kernels");
const target = join(root, "dist", "learner", "model", "kernels");
/** @type {readonly { readonly file: string, readonly features: string }[]} */
const builds = [
  { file: "simd.wasm", features: "simd" },
  { file: "relaxed-simd.wasm", features: "simd,relaxed-simd" },
];

/** True when a build is missing or older than a source, the compiler or this file. */
export function areKernelsStale() {
  const inputs = [
    ...readdirSync(sources).map((file) => join(sources, file)),
    join(root, "node_modules", "assemblyscript", "package.json"),
    fileURLToPath(import.meta.url),
  ];
  const newest = Math.max(...inputs.map((file) => statSync(file).mtimeMs));
  return builds.some(({ file }) => {
    const built = join(target, file);
    return !existsSync(built) || statSync(built).mtimeMs < newest;
  });
}

async function buildKernels() {
  const { default: compiler } = await import("assemblyscript/asc");
  mkdirSync(target, { recursive: true });
  for (const { file, features } of builds) {
    const options = {
      baseDir: root,
      outFile: join("dist", "learner", "model", "kernels", file),
      enable: features,
      optimizeLevel: "3",
      runtime: "stub",
      memoryBase: "1024",
      disableWarning: "112", // v128 in signatures: none of these functions is exported
    };
    const named = Object.entries(options).flatMap(([name, value]) => [`--${name}`, value]);
    const flags = ["--noAssert", "--importMemory", "--noExportMemory"];
    const { error } = await compiler.main([join("kernels", "index.ts"), ...named, ...flags], {
      stdout: process.stdout,
      stderr: process.stderr,
    });
    if (error !== null) process.exitCode = 1;
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await buildKernels();
