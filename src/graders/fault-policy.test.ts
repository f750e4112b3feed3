import { describe, expect, it } from "vitest";
import { conservationViolations, toSamples, TrajectoryRecorder } from "../trajectories/index.ts";
import { applyFaultPolicy, faultPolicies, isForeignFault } from "./fault-attribution.ts";

/** Two branches of three turns; the middle turn was already discarded. */
function played() {
  const recorder = new TrajectoryRecorder();
  recorder.extend([1, 2]);
  for (const [at, sampled] of [[10, 11], [12], [13, 14, 15]].entries()) {
    recorder.act({
      sampledTokens: Uint32Array.from(sampled),
      logprobs: Float32Array.from(sampled, () => -1),
      finish: { reason: "stop", matched: null, raw: null },
      weightSpans: [{ tokenCount: sampled.length, dispatch: "1", reply: "1" }],
    });
    if (at === 0) recorder.extend([3]);
    if (at === 1) recorder.rewrite(Uint32Array.of(1, 2, 4), "rewritten");
  }
  const { trajectory } = recorder;
  const origin = { episodeId: "e", groupId: "g", taskId: "t", reward: 0 } as const;
  const result = toSamples(
    trajectory,
    { ...origin, tokenAccounting: "token-exact", historyPolicy: "branch" },
    { dropTurn: ({ index }) => (index === 1 ? "discarded-turn" : null) },
  );
  return { trajectory, result };
}

describe("applyFaultPolicy()", () => {
  it.each(faultPolicies)("accounts for every sampled token under policy %s", (policy) => {
    const { trajectory, result } = played();
    expect(conservationViolations(trajectory, applyFaultPolicy(result, { policy, trajectory }))).toEqual([]);
  });

  it("masks every token and keeps rows, rewards and what was dropped before", () => {
    const { trajectory, result } = played();
    const masked = applyFaultPolicy(result, { policy: "mask", trajectory });
    expect(masked.samples.map(({ id, reward }) => [id, reward])).toEqual(
      result.samples.map(({ id, reward }) => [id, reward]),
    );
    expect(masked.samples.flatMap(({ lossMask }) => [...lossMask])).not.toContain(1);
    expect(masked.samples.map(({ sampledMask }) => sampledMask)).toEqual(
      result.samples.map(({ sampledMask }) => sampledMask),
    );
    expect(masked.dropped).toEqual([
      { turn: 1, count: 1, reason: "discarded-turn" },
      { turn: 0, count: 2, reason: "filtered" },
      { turn: 2, count: 3, reason: "filtered" },
    ]);
  });

  it("drops rows, and keeps everything as it is by default", () => {
    const { trajectory, result } = played();
    expect(applyFaultPolicy(result, { policy: "drop", trajectory }).samples).toEqual([]);
    expect(applyFaultPolicy(result, { policy: "keep", trajectory })).toEqual(result);
  });

  it("is for every fault but the agent's", () => {
    expect((["agent", "user", "environment", "infrastructure"] as const).map(isForeignFault)).toEqual([
      false, true, true, true,
    ]); // prettier-ignore
  });
});
