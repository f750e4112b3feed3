// Bundles the viewer's page (viewer/src) into dist/viewer/page: one script, one style. Does nothing
// if nothing changed.

import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { rolldown } from "rolldown";

import { root } from "./run-command.mjs";

const source = join(root, "viewer", "src");
const target = join(root, "dist", "viewer", "page");
/**
 * Inputs of the page beside its own files: modules of src/ that run in a browser, and packages at
 * the versions of the lock file.
 */
const inputs = [
  ...[
    "viewer/src",
    "src/viewer/wire",
    "src/core",
    "src/lib",
    "src/python-semantics",
    "src/trajectories",
    "src/statistics",
  ],
  ...["package-lock.json", "scripts/build-viewer.mjs"],
].map((path) => join(root, path));

/** Maximum bytes of script and style together: plain, and compressed. */
export const mostBytes = Object.freeze({ plain: 400_000, gzip: 120_000 });

export async function buildViewer() {
  if (!isStale()) return;
  const bundle = await rolldown({
    input: join(source, "main.tsx"),
    platform: "browser",
    tsconfig: join(root, "viewer", "tsconfig.json"),
    transform: { define: { "process.env.NODE_ENV": '"production"' } },
  });
  const { output } = await bundle.generate({ format: "es", minify: true });
  await bundle.close();
  if (output.length !== 1) throw new Error(`The page is one script, and ${output.length} files came out.`);
  const style = ["uplot/dist/uPlot.min.css"]
    .map((file) => join(root, "node_modules", file))
    .concat(join(source, "style.css"))
    .map((file) => readFileSync(file, "utf8"))
    .join("\n");
  mkdirSync(target, { recursive: true });
  // A script element ends at its closing tag, wherever that occurs in the text.
  writeFileSync(join(target, "app.css"), minified(style));
  writeFileSync(join(target, "app.js"), output[0].code.replaceAll(/<(?=\/script|!--)/gi, "\\x3c"));
}

/** Size of the page, and problems as sentences. */
export function pageSize() {
  const parts = ["app.js", "app.css"].map((name) => readFileSync(join(target, name)));
  const plain = parts.reduce((sum, part) => sum + part.length, 0);
  const gzip = gzipSync(Buffer.concat(parts), { level: 9 }).length;
  const problems =
    plain > mostBytes.plain || gzip > mostBytes.gzip
      ? [
          `The viewer's page has ${plain} bytes, ${gzip} compressed; ${mostBytes.plain} and ${mostBytes.gzip} are allowed.`,
        ]
      : [];
  return { plain, gzip, problems };
}

function isStale() {
  try {
    const built = Math.min(...["app.js", "app.css"].map((name) => statSync(join(target, name)).mtimeMs));
    return inputs.some((path) => newest(path) > built);
  } catch {
    return true;
  }
}

/** @param {string} path @returns {number} */
function newest(path) {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined) return 0;
  if (!found.isDirectory()) return found.mtimeMs;
  return readdirSync(path).reduce((latest, name) => Math.max(latest, newest(join(path, name))), found.mtimeMs);
}

/** Removes comments and the white space around punctuation. @param {string} style */
function minified(style) {
  return style
    .replaceAll(/\/\*[\s\S]*?\*\//g, "")
    .replaceAll(/\s+/g, " ")
    .replaceAll(/ ?([{};,]) ?/g, "$1")
    .trim();
}
