// Module hooks for the modules that options name, in Node's loader thread. A module loads under any
// version of Node and any package.json above it: types are blanked, as newer Nodes do; a file with
// imports or exports is an ES module, even if "npm init" wrote "type": "commonjs"; and this package
// is found by its name, even if it is not installed beside the module.

import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { compileFunction } from "node:vm";
import { transformSync } from "@swc/wasm-typescript";

type LoadResult = { readonly format: string; readonly source?: unknown; readonly shortCircuit?: boolean };

/** Called by Node for every module that is loaded after the hooks are registered. */
export async function load(
  url: string,
  context: { readonly format?: string | null },
  nextLoad: (url: string, context: unknown) => Promise<LoadResult>,
): Promise<LoadResult> {
  const [, extension = ""] = (url.startsWith("file:") && /\.([cm]?ts|js)$/.exec(new URL(url).pathname)) || [];
  const isScript = extension === "js" && context.format !== "module" && !url.includes("/node_modules/");
  if (!isScript && !extension.endsWith("ts")) return nextLoad(url, context);
  const filename = fileURLToPath(url);
  const text = await readFile(filename, "utf8");
  if (isScript)
    return isCommonJs(text) ? nextLoad(url, context) : { format: "module", source: text, shortCircuit: true };
  const { code } = transformSync(text, { mode: "strip-only", filename, module: extension !== "cts" });
  const isRequired = extension === "cts" || (extension === "ts" && usesCommonJs(code));
  return { format: "module", source: isRequired ? asEsModule(code) : code, shortCircuit: true };
}

type ResolveContext = { readonly parentURL?: string };
type Resolved = { readonly url: string };

/** Called by Node for every import. Our own name falls back to this very copy of the package. */
export async function resolve(
  specifier: string,
  context: ResolveContext,
  nextResolve: (specifier: string, context: ResolveContext) => Promise<Resolved>,
): Promise<Resolved> {
  if (!/^trainable-agents(\/|$)/.test(specifier)) return nextResolve(specifier, context);
  return nextResolve(specifier, context).catch((error: unknown) =>
    nextResolve(specifier, { ...context, parentURL: import.meta.url }).catch(() => {
      throw error;
    }),
  );
}

/**
 * True if a source without types compiles as a CommonJS module; one with imports, exports or a
 * top-level await does not.
 */
function isCommonJs(source: string): boolean {
  try {
    compileFunction(source, ["exports", "require", "module", "__filename", "__dirname"]);
    return true;
  } catch {
    return false;
  }
}

/** True for CommonJS; a TypeScript module that exports nothing in either way is an ES module. */
function usesCommonJs(source: string): boolean {
  return /\b(require|module|exports)\b/.test(source) && isCommonJs(source);
}

/**
 * CommonJS as an ES module whose default export is `module.exports`; line numbers do not change.
 * Modules of the format "commonjs" that come from a hook get a `require` from Node that finds no ES
 * module.
 */
function asEsModule(code: string): string {
  const imports = `import { createRequire } from "node:module"; import { fileURLToPath } from "node:url";`;
  const names = `const require = createRequire(import.meta.url); const module = { exports: {} };`;
  const file = `const __filename = fileURLToPath(import.meta.url); const __dirname = fileURLToPath(new URL(".", import.meta.url));`;
  return `${imports} ${names} ${file} (function (exports) { ${code}\n})(module.exports); export default module.exports;\n`;
}

/** The parser's error for a module in TypeScript or JavaScript; `null` if the module is valid. */
export function parseProblem(source: string, filename: string): unknown {
  try {
    transformSync(source, { mode: "strip-only", filename, module: true });
    return null;
  } catch (error) {
    return error;
  }
}
