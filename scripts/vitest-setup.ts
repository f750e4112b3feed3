// Property tests draw the same cases everywhere, so a failure here is a failure there. `npm run test:full` draws ten times
// as many; FAST_CHECK_SEED tries other ones.

import * as fc from "fast-check";

fc.configureGlobal({
  seed: Number(process.env["FAST_CHECK_SEED"] ?? 20_260_101),
  numRuns: process.env["FULL"] === "1" ? 1000 : 100,
});
