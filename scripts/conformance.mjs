// `npm run conformance -- <suite> <folder>`: sets the clone up, then plays golden files. Everything else, usage included, is
// in src/conformance/main.ts. Folders are meant relative to where the command was typed, not to the repository.

import { join } from "node:path";

import { root, runAttached } from "./run-command.mjs";
import { setUp } from "./setup.mjs";

await setUp();
process.exitCode = await runAttached([join(root, "dist", "conformance", "main.js"), ...process.argv.slice(2)], {
  cwd: process.env["INIT_CWD"] ?? process.cwd(),
});
