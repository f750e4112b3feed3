// `node scripts/example.mjs 01`: sets the clone up, compiles examples/ (Node 20 does not read TypeScript) and runs the one whose
// name begins so. Without a name it lists them.

import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { readSources } from "./checks/read-sources.mjs";
import { root, runAttached } from "./run-command.mjs";
import { setUp } from "./setup.mjs";

/** The numbered examples in their order, without extension. */
export function listExamples() {
  return [...readSources("examples", ".ts").keys()]
    .filter((file) => /^\d\d-[^/.]*\.ts$/.test(file))
    .map((file) => file.slice(0, -".ts".length));
}

async function main() {
  const [wanted, ...parameters] = process.argv.slice(2);
  const names = listExamples();
  const name = names.find((example) => wanted !== undefined && example.startsWith(wanted));
  if (name === undefined) {
    const problem = wanted === undefined ? "no name was given" : `none begins with "${wanted}"`;
    process.stderr.write(`Cannot run an example: ${problem}; choose one of ${names.join(", ") || "(none yet)"}.\n`);
    return 2;
  }
  await setUp();
  const compiler = join(root, "node_modules", "typescript", "bin", "tsc");
  const code = await runAttached([compiler, "-b", "tsconfig.examples.json"], { cwd: root });
  return code === 0 ? runAttached([join(root, "build", "examples", `${name}.js`), ...parameters]) : code;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.exitCode = await main();
