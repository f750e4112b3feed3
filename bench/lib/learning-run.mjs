// Runs a training like that of `train` from a script: options by name, wrong masks for controls,
// and the results of the run as its return value.

import { tmpdir } from "node:os";
import { join } from "node:path";

import { setUp } from "../../scripts/setup.mjs";

await setUp();
const { readTraining, trainFrom } = await import("../../dist/api/train.js");
const { rolloutSettings } = await import("../../dist/api/rollout-settings.js");
const { trainSettings } = await import("../../dist/api/train-settings.js");

/** Throws for flags that `train` does not have or would refuse, before anything is run. */
export async function checkFlags(flags) {
  const unknown = Object.keys(flags).find((name) => !(name in trainSettings) && !(name in rolloutSettings));
  if (unknown !== undefined) throw new Error(`Cannot use "${unknown}": train has no such flag; correct it.`);
  await readTraining({ ...flags, out: join(tmpdir(), "never-written") });
}

/** `sabotage`: see `policySequences`. Notices and steps go to stderr. */
export async function learningRun({ flags, folder, sabotage = "none" }) {
  let shown = 0;
  const onEvent = (event) => {
    if (event.type === "notice") process.stderr.write(`${event.message}\n`);
    const { step = 0, pass_rate: rate = null } = event.progress?.metrics ?? {};
    if (step <= shown) return;
    shown = step;
    process.stderr.write(`step ${step}${rate === null ? "" : `, pass ${(rate * 100).toFixed(1)} %`}\n`);
  };
  return trainFrom(await readTraining({ ...flags, out: folder }), { onEvent, sabotage });
}
