// A training as `train` makes it, from a script: settings by their names, the wrong masks of the controls, and what the run
// found out as its result.

import { setUp } from "../../scripts/setup.mjs";

await setUp();
const { trainPolicy } = await import("../../dist/cli/learning/train-policy.js");
const { resolveTrainSettings } = await import("../../dist/cli/settings/resolve-train-settings.js");

/** `sabotage`: see `policySequences`. What it shows goes to this process's output. */
export async function learningRun({ flags, folder, sabotage = "none" }) {
  const never = new AbortController().signal;
  const { stdout, stderr, env } = process;
  const context = { stdout, stderr, env, cwd: process.cwd(), drain: never, cancel: never, program: "trainable-agents" };
  return trainPolicy({ ...resolveTrainSettings(flags, null), folder, context, sabotage });
}
