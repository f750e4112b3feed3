// `npm run train`: sets the clone up and trains, with the flags of `trainable-agents train`; without flags the published run.

import { join } from "node:path";

import { root, runAttached } from "./run-command.mjs";
import { setUp } from "./setup.mjs";

await setUp();
process.exitCode = await runAttached([join(root, "dist", "cli", "main.js"), "train", ...process.argv.slice(2)]);
