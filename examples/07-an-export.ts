// An export: a run as the rows of a trainer, in one file; omitted rows are counted with the reason.
// Equivalent to the command `export`.
// Run: npx trainable-agents example 07

import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { exportRun, rollout } from "trainable-agents";

const cwd = await mkdtemp(join(tmpdir(), "example-"));
await rollout({ engine: "expert", expertNoise: 0.3, tasks: "0-3", groupSize: 2, seed: 1, cwd, out: "run" });

const written = await exportRun({ runs: "run", format: "verl", where: "reward == 1", output: "train.jsonl", cwd });
console.log(`${written?.rows} rows, ${written?.trainedTokens} trained tokens`);
for (const { reason, episodes } of written?.leftOut ?? []) console.log(`left out: ${episodes} episodes (${reason})`);

const [first = "{}"] = (await readFile(join(cwd, "train.jsonl"), "utf8")).split("\n");
console.log(Object.keys(JSON.parse(first) as object).join(", "));
await rm(cwd, { recursive: true });
