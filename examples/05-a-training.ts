// A training: the shipped model learns from its own episodes, on this machine. What the command `train` does; here one step of
// few episodes, so that it ends in seconds. `node scripts/example.mjs 09` shows what a step is made of.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { train } from "trainable-agents";

const cwd = await mkdtemp(join(tmpdir(), "example-"));
const { end, folder, comparison } = await train({
  ...{ env: "bookshop", model: "bookshop-nano", steps: 1, groups: 1, groupSize: 2, maxGroups: 2, maxTurns: 4 },
  ...{ evalEvery: 0, evalTasks: 2, finalTasks: 2, seed: 3, cwd, out: "training" },
  onEvent: ({ type }) => console.log(type),
});
console.log(`${end.type}; checkpoints in ${folder}; compared on held-out tasks: ${comparison !== null}`);
await rm(cwd, { recursive: true });
