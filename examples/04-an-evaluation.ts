// An evaluation: every task several times, and the reliability of the policy. Equivalent to the
// command `eval`.
// Run: npx trainable-agents example 04

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { evaluate } from "trainable-agents";

const cwd = await mkdtemp(join(tmpdir(), "example-"));
const { evaluation } = await evaluate({ env: "bookshop", engine: "expert", trials: 4, tasks: "0-5", cwd, out: "run" });
for (const { k, passHatK, passAtK } of evaluation.passRates) {
  console.log(`pass^${k} ${passHatK?.toFixed(3)}   pass@${k} ${passAtK?.toFixed(3)}`);
}
console.log("failures attributed to", evaluation.faults);
await rm(cwd, { recursive: true });
