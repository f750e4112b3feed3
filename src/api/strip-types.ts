// A module hook that takes the types out of TypeScript modules, for Nodes that do not do it themselves (before 22.18). The
// same transformation as Node's own: types are blanked, nothing else changes. Runs in Node's loader thread.

import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { transformSync } from "@swc/wasm-typescript";

type LoadResult = { readonly format: string; readonly source?: unknown; readonly shortCircuit?: boolean };

/** Node calls it for every module that is loaded after the hook is registered. */
export async function load(
  url: string,
  context: unknown,
  nextLoad: (url: string, context: unknown) => Promise<LoadResult>,
): Promise<LoadResult> {
  if (!url.startsWith("file:") || !/\.m?ts$/.test(new URL(url).pathname)) return nextLoad(url, context);
  const filename = fileURLToPath(url);
  const { code } = transformSync(await readFile(filename, "utf8"), { mode: "strip-only", filename, module: true });
  return { format: "module", source: code, shortCircuit: true };
}

/** What the parser has to say about a module, TypeScript or JavaScript; `null` when it is one. */
export function parseProblem(source: string, filename: string): unknown {
  try {
    transformSync(source, { mode: "strip-only", filename, module: true });
    return null;
  } catch (error) {
    return error;
  }
}
