// `npm start`: sets the clone up, then runs the demonstration of the command line. Parameters are
// passed on.

import { join } from "node:path";

import { root, runAttached } from "./run-command.mjs";
import { setUp } from "./setup.mjs";

await setUp();
process.exitCode = await runAttached([join(root, "dist", "cli", "main.js"), "start", ...process.argv.slice(2)]);
