// Property tests draw the same cases everywhere, so a failure is reproducible on any machine. `npm
// run test:full` draws ten times as many; FAST_CHECK_SEED tries other ones.

import { tmpdir } from "node:os";
import { join } from "node:path";
import * as fc from "fast-check";

// Indexes of runs that lack one are kept here, not beside those of the person who tests.
process.env["TRAINABLE_AGENTS_CACHE"] = join(tmpdir(), "trainable-agents-tests");

fc.configureGlobal({
  seed: Number(process.env["FAST_CHECK_SEED"] ?? 20_260_101),
  numRuns: process.env["FULL"] === "1" ? 1000 : 100,
});
