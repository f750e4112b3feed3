// `npm run bench -- <name>`: sets the clone up, then runs bench/<name>.mjs against the build. Without a name it lists them.

import { readdirSync } from "node:fs";
import { join } from "node:path";

import { root, runAttached } from "./run-command.mjs";
import { setUp } from "./setup.mjs";

const folder = join(root, "bench");
const names = readdirSync(folder)
  .filter((file) => file.endsWith(".mjs"))
  .map((file) => file.slice(0, -".mjs".length))
  .sort();
const [name, ...parameters] = process.argv.slice(2);

if (name === undefined || !names.includes(name)) {
  const problem = name === undefined ? "no name was given" : `there is no "${name}"`;
  process.stderr.write(`Cannot run a benchmark: ${problem}; choose one of ${names.join(", ") || "(none yet)"}.\n`);
  process.exit(2);
}
await setUp();
process.exitCode = await runAttached(["--expose-gc", join(folder, `${name}.mjs`), ...parameters]);
