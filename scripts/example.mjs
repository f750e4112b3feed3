// `node scripts/example.mjs 01`: sets the clone up and runs the example whose name begins with 01,
// as `npx trainable-agents example 01` does. Without a name it lists them.

import { join } from "node:path";
import { root, runAttached } from "./run-command.mjs";
import { setUp } from "./setup.mjs";

await setUp();
process.exitCode = await runAttached([join(root, "dist", "cli", "main.js"), "example", ...process.argv.slice(2)]);
