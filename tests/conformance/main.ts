// The program that `npm run conformance` starts; see `run-conformance.ts`.

import { loadSuite, suiteNames } from "./index.ts";
import { runConformance } from "./run-conformance.ts";

process.exitCode = await runConformance(process.argv.slice(2), {
  suiteNames,
  loadSuite,
  print: (line) => process.stdout.write(`${line}\n`),
  printError: (line) => process.stderr.write(`${line}\n`),
});
