// A rollout: groups of episodes, and a run folder with everything that a trainer needs. Equivalent
// to the command `rollout`, with its flags in camelCase. The expert is a script that needs no
// server; set `url` and `model` for yours.
// Run: npx trainable-agents example 03

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { rollout } from "trainable-agents";

const cwd = await mkdtemp(join(tmpdir(), "example-"));
const { folder, totals } = await rollout({
  env: "bookshop",
  tasks: "0-3",
  groupSize: 4,
  engine: "expert",
  expertNoise: 0.3,
  seed: 7,
  filter: "zero-signal",
  cwd,
  out: "run",
});
console.log(`${totals.episodesFinished} episodes in ${folder}, mean reward ${totals.meanReward?.toFixed(2)}`);
console.log(`${totals.groupsKept} groups have something to compare, with ${totals.trainedTokens} trained tokens`);
await rm(cwd, { recursive: true });
