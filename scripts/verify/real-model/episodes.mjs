// `npm run verify -- real-model -- episodes`: 32 episodes of the 0.5B and 32 of the 1.5B model by
// llama.cpp, half of them in the stockroom and half in the bookshop. Every sampled token must stand
// once in a training row, none may be encoded again, and every one has a logprob. The format errors
// are listed by code, and how the turn after the first error of an episode went: the feedback shows
// an example, so at least half of them must be calls without an error. `episodes:1.5B` plays one
// model only; a run that was stopped resumes.

import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";

import { root } from "../../run-command.mjs";
import { installLlama } from "../peers.mjs";
import { countRun } from "./count-run.mjs";

const worlds = [
  { name: "stockroom", env: join(root, "examples", "stockroom", "environment.ts") },
  { name: "bookshop", env: "bookshop" },
];
const groups = 4;
const groupSize = 4;
const program = join(root, "dist", "cli", "main.js");

/**
 * @param {import("../real-model.mjs").Given} given
 * @returns {Promise<number>} The exit code.
 */
export async function verifyRealEpisodes({ gguf, folder, only, quick }) {
  const install = installLlama();
  const problems = [];
  for (const model of ["0.5B", "1.5B"].filter((name) => only === null || name === only)) {
    const repaired = { first: 0, followed: 0, wellFormed: 0 };
    for (const { name, env } of worlds) {
      const out = join(folder, `${quick ? "quick-" : ""}${model}-${name}`);
      const flags = existsSync(join(out, "run.json"))
        ? ["--resume", out]
        : [
            ...["--gguf", await gguf(model), "--env", env, "--strategy", "act", "--out", out, "--write-samples"],
            ...["--tasks", `0-${(quick ? 1 : groups) - 1}`, "--group-size", String(quick ? 2 : groupSize)],
            ...["--max-turns", "12", "--max-new-tokens", "128", "--max-context-tokens", "4096", "--seed", "1"],
          ];
      process.stdout.write(`\n=== ${model}, ${name}\n`);
      const { status } = spawnSync(process.execPath, [program, "rollout", ...flags], {
        cwd: install,
        stdio: ["ignore", "inherit", "inherit"],
      });
      if (status !== 0) {
        problems.push(`the rollout of ${model} in the ${name} ended with code ${status}`);
        continue;
      }
      const counted = await countRun(out);
      process.stdout.write(counted.text);
      problems.push(...counted.problems.map((problem) => `${model}, ${name}: ${problem}`));
      repaired.first += counted.first;
      repaired.followed += counted.followed;
      repaired.wellFormed += counted.wellFormed;
    }
    const { first, followed, wellFormed } = repaired;
    process.stdout.write(
      `\n${model}: ${first} episodes have a format error; ${followed} first ones are followed by a turn, ${wellFormed} of these by a well-formed call\n`,
    );
    if (wellFormed * 2 < followed)
      problems.push(`${model}: fewer than half of the first errors are mended by the next turn`);
  }
  if (problems.length > 0) process.stdout.write(`Failed: ${problems.join("; ")}.\n`);
  return problems.length === 0 ? 0 : 1;
}
