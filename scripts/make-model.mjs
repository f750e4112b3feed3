// `npm run make-model [-- --nano] [--to <folder>]`: sets the clone up, then makes a shipped
// checkpoint from scratch. The rest, recipes included, is in src/learner/pretraining/.

import { join } from "node:path";

import { root, runAttached } from "./run-command.mjs";
import { setUp } from "./setup.mjs";

await setUp();
process.exitCode = await runAttached([
  join(root, "dist", "learner", "pretraining", "main.js"),
  ...process.argv.slice(2),
]);
