// A program of the build as one file with all its imports, for tests that start many processes:
// loading 800 modules takes 0.8 s of CPU, the bundle 0.2 s. It is made only of dist/, and again
// when dist/ changes; each module knows its own place in dist/, so that workers, models and modules
// of users are found as without a bundle. The program that users run, dist/ itself, is started by
// src/cli/main.wire.test.ts, the check "package" and `npm start`.

import type { ChildProcess } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, statSync } from "node:fs";
import { join, parse } from "node:path";
import { pathToFileURL } from "node:url";
import { threadId } from "node:worker_threads";
import { rolldown } from "rolldown";
import { repositoryRoot } from "./conformance/shared-folder.ts";

/**
 * Loaded at run time if present: optional peers, and packages that find their own files by their
 * location.
 */
const external = [/^@swc\/wasm-typescript/, /^node-llama-cpp/, /^ai$/, /^@ai-sdk\//];

/**
 * Path of the bundle of a program, which is made if there is none for this build.
 *
 * @example await bundledProgram("dist/cli/main.js")
 */
export async function bundledProgram(program: string): Promise<string> {
  const input = join(repositoryRoot(), program);
  const { name } = parse(program);
  // Below node_modules/, so that the watchdog for user code ignores the bundle: on a busy machine
  // the first use of a library is slow.
  const folder = join(repositoryRoot(), "build", "bundles", "node_modules", `${name}-${stateOfBuild(input)}`);
  const bundle = join(folder, `${name}.js`);
  if (existsSync(bundle)) return bundle;
  const build = await rolldown({ input, platform: "node", external, logLevel: "warn", plugins: [placeOfModules] });
  // Test files run at the same time, and several may find the bundle missing.
  const own = `${folder}-${process.pid}-${threadId}`;
  await build.write({
    dir: own,
    minify: { compress: false, mangle: false, codegen: true },
    entryFileNames: "[name].js",
    chunkFileNames: "[name]-[hash].js",
  });
  await build.close();
  try {
    renameSync(own, folder);
  } catch {
    rmSync(own, { recursive: true });
  }
  return bundle;
}

/**
 * Kills a process at once, as a machine failure would. Resolves when it has ended; at once for
 * `null` or a process that has already ended.
 */
export async function killProcess(child: ChildProcess | null): Promise<void> {
  if (child === null || child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, "close");
  child.kill("SIGKILL");
  await gone;
}

/** `import.meta.url` is that of the module in dist/, not of the bundle. */
const placeOfModules = {
  name: "place-of-modules",
  transform: (code: string, id: string) =>
    code.includes("import.meta.url")
      ? code.replaceAll("import.meta.url", JSON.stringify(pathToFileURL(id).href))
      : null,
};

/** Hash that differs for every build: of the times of its files and of the program's text. */
function stateOfBuild(input: string): string {
  const dist = join(repositoryRoot(), "dist");
  const hash = createHash("sha256").update(readFileSync(input));
  for (const file of readdirSync(dist, { recursive: true, encoding: "utf8" }).toSorted()) {
    if (file.endsWith(".js")) hash.update(`${file} ${statSync(join(dist, file)).mtimeMs}\n`);
  }
  return hash.digest("hex").slice(0, 16);
}
