// `npm test`: sets the clone up, then runs the tests. Parameters are passed on to vitest (`npm test -- src/core`), except
// `--full`, which runs properties and soaks with the counts of a release instead of those of every day.

import { existsSync } from "node:fs";
import { join } from "node:path";

import { root, runAttached } from "./run-command.mjs";
import { setUp } from "./setup.mjs";

if (!existsSync(join(root, "..", "shared"))) {
  if (process.env["CI"] === "true") {
    process.stderr.write(
      'Cannot run the tests: the golden files at "../shared" are absent and CI is "true"; ' +
        "put the shared folder beside the repository, or unset CI to skip the tests that need it.\n",
    );
    process.exit(1);
  }
  process.stderr.write('No golden files at "../shared": the tests that need them are skipped.\n');
}

await setUp();
const parameters = process.argv.slice(2);
const env = parameters.includes("--full") ? { ...process.env, FULL: "1" } : process.env;
const vitest = [join(root, "node_modules", "vitest", "vitest.mjs"), "run"];
process.exitCode = await runAttached([...vitest, ...parameters.filter((name) => name !== "--full")], { env });
