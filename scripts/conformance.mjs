// `npm run conformance -- <suite> <folder>`: sets the clone up, then runs golden files. Everything
// else, usage included, is in tests/conformance/main.ts. Folders are relative to the folder where
// the command was typed, not to the repository.

import { join } from "node:path";

import { root, runAttached } from "./run-command.mjs";
import { buildProject, setUp } from "./setup.mjs";

await setUp();
await buildProject("tests/conformance");
process.exitCode = await runAttached([join(root, "build", "conformance", "main.js"), ...process.argv.slice(2)], {
  cwd: process.env["INIT_CWD"] ?? process.cwd(),
});
