import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Sample } from "../core/index.ts";
import { toSamples, TrajectoryRecorder } from "../trajectories/index.ts";
import { type SlimeRow, slimeRowLine, toSlimeRow } from "./index.ts";
import { templateFacts } from "./samples.ts";

const decode = (tokens: Uint32Array): string => [...tokens].map((id) => `<${id}>`).join("");
const origin = {
  index: 5,
  groupIndex: 2,
  sampleCount: 2,
  episode: {
    id: "e",
    groupId: "g",
    reward: 0.5,
    historyPolicy: "append-only",
    events: [],
    outcome: "completed",
    stopReason: "user_hung_up",
    problems: [],
    grade: { reward: 0.5, metrics: { ruleViolations: 1 }, log: "", info: new Map() },
    task: { environment: "desk", split: "train", index: 0, id: "t", contentHash: "h", instruction: "", agenda: null },
    trajectory: { turns: [] },
  },
} as const;
const stop = { reason: "stop", matched: 9, raw: null } as const;

const ids = fc.array(fc.integer({ min: 0, max: 200_000 }), { minLength: 1, maxLength: 8 });
const turn = fc.record({
  observation: ids,
  action: fc.array(
    fc.record({ id: fc.integer({ min: 0, max: 200_000 }), logprob: fc.float({ noNaN: true, max: 0 }) }),
    {
      minLength: 1,
      maxLength: 8,
    },
  ),
  rewrite: fc.boolean(),
  version: fc.option(fc.constantFrom("1", "2")),
});

function samplesOf(turns: readonly (typeof turn extends fc.Arbitrary<infer T> ? T : never)[]): readonly Sample[] {
  const recorder = new TrajectoryRecorder();
  for (const { observation, action, rewrite, version } of turns) {
    if (rewrite) recorder.rewrite(Uint32Array.from(observation), "test rewrote history");
    else recorder.extend(observation);
    recorder.act({
      sampledTokens: Uint32Array.from(action, ({ id }) => id),
      logprobs: Float32Array.from(action, ({ logprob }) => logprob),
      finish: stop,
      weightSpans: [{ tokenCount: action.length, dispatch: version, reply: version }],
    });
  }
  const facts = { episodeId: "e", groupId: "g", taskId: "t", reward: 0.5, historyPolicy: "append-only" } as const;
  return toSamples(recorder.trajectory, { ...facts, tokenAccounting: "token-exact" }).samples;
}

/** A row as a trainer reads it, with all arrays extended over all tokens. */
function readBack(row: SlimeRow): Pick<Sample, "tokens" | "lossMask" | "logprobs" | "reward"> {
  const start = row.tokens.length - row.response_length;
  const logprobs = new Float32Array(row.tokens.length);
  logprobs.set(row.rollout_log_probs ?? [], start);
  const lossMask = new Uint8Array(row.tokens.length);
  lossMask.set(row.loss_mask, start);
  return { tokens: Uint32Array.from(row.tokens), lossMask, logprobs, reward: row.reward };
}

describe("toSlimeRow()", () => {
  it("keeps tokens, masks and logprobs through a line of JSON, bit for bit", () => {
    fc.assert(
      fc.property(fc.array(turn, { minLength: 1, maxLength: 6 }), (turns) => {
        for (const sample of samplesOf(turns)) {
          const row = toSlimeRow(sample, origin, { decode });
          expect(row.loss_mask).toHaveLength(row.response_length);
          expect(row.rollout_log_probs).toHaveLength(row.response_length);
          // JSON.parse cannot read Python's infinities, so they are replaced by numbers that
          // overflow.
          const line = slimeRowLine(row).replaceAll("-Infinity", "-1e999");
          const back = readBack(JSON.parse(line) as SlimeRow);
          expect(back.tokens).toEqual(sample.tokens);
          expect(back.lossMask).toEqual(sample.lossMask);
          expect(back.logprobs).toEqual(sample.logprobs?.map((logprob) => (Number.isNaN(logprob) ? 0 : logprob)));
          expect(back.reward).toBe(0.5);
          expect(row.prompt + row.response).toBe(decode(sample.tokens));
          expect(sample.sampledMask[row.tokens.length - row.response_length]).toBe(1);
        }
      }),
      { seed: 1, numRuns: 200 },
    );
  });

  it("numbers the row, lists one weight version a reply and says where it came from", () => {
    const [sample] = samplesOf([
      { observation: [1, 2], action: [{ id: 3, logprob: -0.5 }], rewrite: false, version: "1" },
      { observation: [4], action: [{ id: 5, logprob: -0.25 }], rewrite: false, version: "2" },
      { observation: [4], action: [{ id: 5, logprob: -0.25 }], rewrite: false, version: null },
    ]);
    expect(toSlimeRow(sample!, origin, { decode })).toEqual({
      index: 5,
      group_index: 2,
      rollout_id: 5,
      prompt: "<1><2>",
      tokens: [1, 2, 3, 4, 5, 4, 5],
      response: "<3><4><5><4><5>",
      response_length: 5,
      reward: 0.5,
      loss_mask: [1, 0, 1, 0, 1],
      rollout_log_probs: [-0.5, 0, -0.25, 0, -0.25],
      weight_versions: ["1", "2"],
      status: "completed",
      metadata: {
        source_name: "desk",
        task_id: "t",
        content_hash: "h",
        group_id: "g",
        episode_id: "e",
        branch: 0,
        weight: 0.5,
        history_policy: "append-only",
        deviations: [],
        token_accounting: "token-exact",
        stop_reason: "user_hung_up",
        problems: 0,
        metrics: { ruleViolations: 1 },
        turn_rewards: null,
        turn_digests: [],
      },
    });
  });

  it("writes floats that Python reads as floats", () => {
    const [sample] = samplesOf([{ observation: [1], action: [{ id: 3, logprob: -2 }], rewrite: false, version: null }]);
    const line = slimeRowLine({ ...toSlimeRow(sample!, origin, { decode }), reward: 1 });
    expect(line).toContain('"rollout_log_probs":[-2.0]');
    expect(line).toContain('"reward":1.0');
    expect(slimeRowLine({ ...toSlimeRow(sample!, origin, { decode }), rollout_log_probs: null })).toContain(
      '"rollout_log_probs":null',
    );
  });

  it("refuses re-encoded text without a flag, and arrays that are not aligned with it or without", () => {
    const [sample] = samplesOf([{ observation: [1], action: [{ id: 3, logprob: -2 }], rewrite: false, version: null }]);
    const delta: Sample = { ...sample!, tokenAccounting: "text-delta" };
    expect(() => toSlimeRow(delta, origin, { decode })).toThrow('re-encoded text ("text-delta")');
    expect(toSlimeRow(delta, origin, { decode, allowTextDelta: true }).metadata.token_accounting).toBe("text-delta");
    const shifted: Sample = { ...sample!, lossMask: Uint8Array.of(1, 0) };
    expect(() => toSlimeRow(shifted, origin, { decode })).toThrow("token 0 enters the loss and was not sampled");
  });
});

it("rows name the variables that the chat template was given, where there are any", () => {
  expect(templateFacts({})).toEqual({});
  expect(templateFacts({ templateKwargs: {} })).toEqual({});
  expect(templateFacts({ templateKwargs: { reasoning_effort: "high" } })).toEqual({
    template_kwargs: { reasoning_effort: "high" },
  });
});
