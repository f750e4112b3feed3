// `npm run conformance -- <suite> <folder>`: sets the clone up, then plays golden files. Everything else, usage included, is
// in tests/conformance/main.ts. Folders are meant relative to where the command was typed, not to the repository.

import { join } from "node:path";

import { root, runAttached } from "./run-command.mjs";
import { buildProject, setUp } from "./setup.mjs";

await setUp();
await buildProject("tests/conformance");
process.exitCode = await runAttached([join(root, "build", "conformance", "main.js"), ...process.argv.slice(2)], {
  cwd: process.env["INIT_CWD"] ?? process.cwd(),
});
