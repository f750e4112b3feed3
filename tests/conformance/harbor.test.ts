// The 23 tasks whose grades by Harbor 0.25.0 itself are recorded in ../shared/facts/worlds.md: their
// solutions are played and graded here, in the sandbox.

import { describe, expect, it } from "vitest";
import { AttributedError } from "../../src/core/index.ts";
import { harborSource } from "../../src/environments/harbor/index.ts";
import { hasBubblewrap } from "../../src/environments/harbor/sandbox.test-helper.ts";
import { sharedFolder } from "./shared-folder.ts";

const folder = sharedFolder("recipes", "harbor/edge");

/** All rewards, or the name of the exception, as Harbor gave them. */
const harbor: Readonly<Record<string, Readonly<Record<string, number>> | string>> = {
  both: { reward: 0.9, style: 2 },
  cheat: "RewardFileNotFoundError",
  empty: "RewardFileEmptyError",
  envvars: { reward: 1 },
  exit1: { reward: 0.5 },
  jsonbare: "ValidationError",
  jsonbool: { reward: 1 },
  jsonnest: "VerifierOutputParseError",
  jsonstr: "VerifierOutputParseError",
  nan: "VerifierOutputParseError",
  neg: { reward: -3.5 },
  netpub: { reward: 1 },
  none: "RewardFileNotFoundError",
  slowagent: { reward: 0.3 },
  slowtest: "VerifierTimeoutError",
  solvefail: { reward: 1 },
  spaces: { reward: 0.25 },
  under: { reward: 10 },
  vers: { reward: 1 },
  words: "VerifierOutputParseError",
};
/** Harbor grades these without a reward to learn from: `{}`, and `{"a": 1, "b": 3}`. */
const ours = { jsonempty: "NoRewardError", jsonnokey: "NoRewardError" };

describe.skipIf(folder === null || !hasBubblewrap())("Harbor's edge cases", () => {
  it(
    "are graded as by Harbor, but for a separate verifier, which is refused by name",
    { timeout: 120_000 },
    async () => {
      await expect(harborSource(folder!, { network: "none" })).rejects.toThrow(/1 of 23 .*\n +sep: /s);
      const source = await harborSource(folder!, { network: "none", skip: true });
      const tasks = source.taskset("all");
      const found: Record<string, unknown> = {};
      for (let index = 0; index < tasks.size; index++) {
        const one = tasks.task(index);
        const world = await source.open(one, { seed: 0, signal: new AbortController().signal });
        try {
          await world.solve();
          found[one.id.split(":").at(-1) ?? ""] = (await world.grade({ outcome: "completed" })).metrics;
        } catch (error) {
          if (!(error instanceof AttributedError)) throw error;
          expect(error.failure.boundary).toBe("grader");
          found[one.id.split(":").at(-1) ?? ""] = error.failure.code;
        } finally {
          await world.close();
        }
      }
      expect(found).toEqual({ ...harbor, ...ours });
    },
  );
});
