// A training as `train` makes it, from a script: options by their names, the wrong masks of the controls, and what the run found
// as its result.

import { setUp } from "../../scripts/setup.mjs";

await setUp();
const { readTraining, trainFrom } = await import("../../dist/api/train.js");

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
