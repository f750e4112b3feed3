import { describe, expect, it } from "vitest";
import type { EnvironmentSource, Episode } from "../../core/index.ts";
import { createManualClock } from "../../lib/clock.test-helper.ts";
import { taskUser } from "../../users/index.ts";
import { conservationViolations } from "../../trajectories/index.ts";
import { count, instantClock, leave, type Reply, task, tokenizer, world } from "./episode-world.test-helper.ts";
import { episodeSamples, type EpisodeOptions, runEpisode } from "../index.ts";
import { requestIdOf } from "./sample-turn.ts";

const hangUp = "###STOP###";

async function runScript(
  replies: readonly Reply[],
  lines: Parameters<typeof world>[1],
  options: EpisodeOptions & { readonly world?: Parameters<typeof world>[2] } = {},
): Promise<{ episode: Episode; model: ReturnType<typeof world>["model"] }> {
  const { world: worldOptions, ...rest } = options;
  const { parts, model } = world(replies, lines, worldOptions);
  return { episode: await runEpisode(task, parts, { clock: instantClock(), ...rest }), model };
}

describe("runEpisode()", () => {
  it("names what stands in the observation of a turn that is sampled again after an abort", async () => {
    const { episode } = await runScript(
      [{ text: "How far?<|endoftext|>", finish: "stop" }, { text: "It", finish: "abort" }, "It is 3."],
      ["Please count.", "To <|im_end|>.", hangUp],
      { engineAbort: { onAbort: "restart" } },
    );
    expect(episode.trajectory.turns.map(({ spelledTokens, deviation }) => [spelledTokens, deviation])).toEqual([
      [0, null],
      [1, "other-end-token"],
      [1, "other-end-token"],
    ]);
    expect(episodeSamples(episode).samples.map(({ deviations }) => deviations)).toEqual([["other-end-token"]]);
  });

  it("carries calls to the environment and words to the user until the user hangs up, then grades", async () => {
    const { episode, model } = await runScript(
      ["How far?", count(3), "It is 3."],
      ["Please count.", "To 3.", `Bye ${hangUp}`],
    );
    expect(episode).toMatchObject({ outcome: "completed", stopReason: "user_hung_up", reward: 1, failure: null });
    expect(model.left()).toBe(0);
    expect(episode.messages.map(({ role, content }) => [role, content])).toEqual([
      ["system", "Count when asked."],
      ["user", "Please count."],
      ["assistant", "How far?"],
      ["user", "To 3."],
      ["assistant", count(3)],
      ["tool", '{"count": 3}'],
      ["assistant", "It is 3."],
    ]);
    expect(episode.events.map(({ type }) => type)).toEqual([
      "episode-start",
      "user-line",
      "turn",
      "decision",
      "user-line",
      "turn",
      "decision",
      "tool-result",
      "turn",
      "decision",
      "user-line",
      "grade",
      "episode-end",
    ]);
  });

  it("hands the user the text that the environment begins with", async () => {
    const { parts } = world([count(3), "It is 3."], []);
    const environment: EnvironmentSource = {
      ...parts.environment,
      open: async (opened, openOptions) => ({
        ...(await parts.environment.open(opened, openOptions)),
        opening: "The counter is at 0.",
      }),
    };
    const episode = await runEpisode(task, { ...parts, environment, user: taskUser() });
    expect(episode).toMatchObject({ stopReason: "user_hung_up", reward: 1 });
    expect(episode.messages[1]?.content).toBe("The counter is at 0.");
    const broken: EnvironmentSource = {
      ...environment,
      open: async (opened) => ({ ...(await environment.open(opened)), opening: 7 as unknown as string }),
    };
    const failed = await runEpisode(task, { ...parts, environment: broken, user: taskUser() });
    expect(failed.failure).toMatchObject({ boundary: "environment", code: "bad-result" });
  });

  it("shows every prompt as the chat template renders it, and sends each as an extension of the one before", async () => {
    const { episode, model } = await runScript([count(1), count(2), "Done."], ["Count.", hangUp]);
    const { renderer } = world([], []).parts;
    const { tools } = await world([], []).parts.environment.open(task);
    model.prompts.forEach((prompt, turn) => {
      expect(prompt).toBe(renderer.renderPrompt(episode.messages.slice(0, 2 + 2 * turn), tools).text);
      if (turn > 0)
        expect(prompt.startsWith(`${model.prompts[turn - 1]}${episode.messages[2 * turn]?.content}<|im_end|>`)).toBe(
          true,
        );
    });
  });

  it("ends when a tool ends the episode, with the state graded as it is", async () => {
    const { episode } = await runScript([count(3), leave], ["Count."]);
    expect(episode).toMatchObject({ stopReason: "tool_ended", outcome: "completed", reward: 1 });
  });

  it('stops with "max_turns" before asking the engine again, truncated and graded by the domain', async () => {
    const { episode, model } = await runScript([count(1), count(2), "never asked"], ["Count."], {
      limits: { maxTurns: 2 },
    });
    expect(episode).toMatchObject({ stopReason: "max_turns", outcome: "truncated", reward: 0 });
    expect(model.left()).toBe(1);
  });

  it('stops with "max_tokens" when the budget is spent, and never asks for more than is left of it', async () => {
    const first = tokenizer.encode(`${count(1)}<|im_end|>`).length;
    const { episode, model } = await runScript([count(1), count(1)], ["Count."], {
      limits: { maxSampledTokens: first + 5 },
    });
    expect(model.requests.map(({ sampling }) => sampling.maxNewTokens)).toEqual([first + 5, 5]);
    expect(episode.stopReason).toBe("max_tokens");
  });

  it('stops with "context_length" when the server refuses the prompt, and before it has to when the context is known', async () => {
    const refused = await runScript([{ fault: "context-length", retryable: false }], ["Count."]);
    expect(refused.episode).toMatchObject({
      stopReason: "context_length",
      outcome: "truncated",
      failure: null,
      reward: 0,
    });
    const known = await runScript([], ["Count."], { limits: { maxContextTokens: 40 } });
    expect(known.episode.stopReason).toBe("context_length");
    expect(known.model.requests).toHaveLength(0);
    const clamped = await runScript([count(3), leave], ["Count."], { limits: { maxContextTokens: 2000 } });
    const [request] = clamped.model.requests;
    expect(request?.sampling.maxNewTokens).toBe(
      Math.min(1024, 1999 - clamped.episode.trajectory.turns[0]!.observationTokens.length),
    );
  });

  it("turns bad calls into observations that the policy can react to, and counts them", async () => {
    const { episode } = await runScript(
      [
        "<tool_call>\n{broken\n</tool_call>",
        count("x"),
        `<tool_call>\n{"name": "dance"}\n</tool_call>`,
        count(13),
        count(3),
        leave,
      ],
      ["Count."],
    );
    expect(episode.problems.map(({ code }) => code)).toEqual(["not-json", "schema-violation", "unknown-tool"]);
    expect(episode.messages.filter(({ role }) => role === "tool").at(3)?.content).toBe("Error: unlucky");
    expect(episode).toMatchObject({ outcome: "completed", reward: 1 });
  });

  it('ends or aborts on a bad call when the policy says so; only "end" is graded', async () => {
    const end = await runScript(["<tool_call>\n{broken\n</tool_call>"], ["Count."], {
      world: { problemPolicy: { "not-json": "end" } },
    });
    expect(end.episode).toMatchObject({ stopReason: "bad_action", outcome: "completed", reward: 0 });
    const abort = await runScript(["<tool_call>\n{broken\n</tool_call>"], ["Count."], {
      world: { problemPolicy: { "not-json": "abort" } },
    });
    expect(abort.episode).toMatchObject({ stopReason: "bad_action_aborted", outcome: "aborted", reward: null });
  });

  it('ends at an engine abort when the policy is "end": keeps the partial tokens, grades nothing and trains nothing', async () => {
    const { episode } = await runScript([count(3), { text: "I was about", finish: "abort" }], ["Count."], {
      engineAbort: { onAbort: "end" },
    });
    expect(episode).toMatchObject({ stopReason: "engine_abort", outcome: "aborted", reward: null });
    expect(tokenizer.decode(episode.trajectory.turns[1]!.sampledTokens)).toBe("I was about");
    const { samples, dropped } = episodeSamples(episode);
    expect(samples).toEqual([]);
    expect(dropped.map(({ reason }) => reason)).toEqual(["episode-aborted", "episode-aborted"]);
  });

  it("closes an action that was cut off with an end token nobody trains", async () => {
    const { episode } = await runScript([{ text: "I think", finish: "length" }, leave], ["Count."]);
    const [sample] = episodeSamples(episode).samples;
    const endToken = tokenizer.tokenId("<|im_end|>");
    const cut = episode.trajectory.turns[0]!;
    const at = cut.observationTokens.length + cut.sampledTokens.length;
    expect(sample?.tokens[at]).toBe(endToken);
    expect([sample?.lossMask[at - 1], sample?.lossMask[at]]).toEqual([1, 0]);
    expect(episode.problems.map(({ code }) => code)).toEqual(["cut-off"]);
  });

  it("retries retryable faults of the engine and keeps them in the turn's log", async () => {
    const clock = instantClock();
    const { episode } = await runScript(
      [{ fault: "overloaded", retryable: true }, { fault: "connection-lost", retryable: true }, leave],
      ["Count."],
      { clock },
    );
    const turn = episode.events.find((event) => event.type === "turn");
    expect(turn?.type === "turn" && turn.attempts.map(({ failure }) => failure.code)).toEqual([
      "overloaded",
      "connection-lost",
    ]);
    expect(clock.waited).toHaveLength(2);
    expect(episode.outcome).toBe("completed");
  });

  it("gives every attempt an id of its own and every turn of an episode one routing key", async () => {
    const { model } = await runScript([{ fault: "overloaded", retryable: true }, count(1), leave], ["Count."], {
      episodeId: "ep",
    });
    expect(model.requests.map(({ requestId }) => requestId)).toEqual([
      "f69f122302f69e0b_t0000_r0001",
      "f69f122302f69e0b_t0000_r0002",
      "f69f122302f69e0b_t0001_r0001",
    ]);
    expect(new Set(model.requests.map(({ routingKey }) => routingKey))).toEqual(new Set(["f69f122302f69e0b"]));
  });

  it("gives ids that routers read the episode from, none of them the prefix of another", () => {
    const counts = [0, 1, 9, 10, 999, 1000, 8999, 9000, 9001, 90_000, 900_000, 99_999_999];
    const ids = ["a", "b", "a@b"].flatMap((key) =>
      counts.flatMap((turn) => counts.map((call) => requestIdOf(key, { turn, call }))),
    );
    const sorted = ids.toSorted();
    // Sorting puts an id directly before those that it is a prefix of.
    expect(sorted.filter((id, index) => sorted[index + 1]?.startsWith(id))).toEqual([]);
    expect(new Set(ids.map((id) => id.replace(/_r\d+$/, "").replace(/_t\d+$/, ""))).size).toBe(3);
    expect(ids.every((id) => id.length <= 128)).toBe(true);
  });

  it("fails at the boundary where the fault crossed; the reward is unknown, not zero", async () => {
    const engine = await runScript([{ fault: "bad-request", retryable: false }], ["Count."]);
    expect(engine.episode).toMatchObject({
      outcome: "failed",
      reward: null,
      failure: { boundary: "engine", code: "bad-request" },
    });
    const user = await runScript(["Hello?"], ["Count.", { type: "fault", code: "timeout", message: "no answer" }]);
    expect(user.episode).toMatchObject({
      outcome: "failed",
      reward: null,
      failure: { boundary: "user", code: "timeout" },
    });
    const { parts } = world([leave], ["Count."]);
    const noScale = {
      grade: () => {
        throw new Error("no scale");
      },
    };
    const environment = {
      ...parts.environment,
      open: (one: typeof task) => Object.assign(parts.environment.open(one), noScale),
    };
    const grader = await runEpisode(task, { ...parts, environment });
    expect(grader).toMatchObject({
      outcome: "failed",
      reward: null,
      failure: { boundary: "grader", message: "no scale" },
    });
  });

  it("fails when an event cannot be recorded, before it counts", async () => {
    const { episode } = await runScript([leave], ["Count."], {
      onEvent: (event) => {
        if (event.type === "turn") throw new Error("disk full");
      },
    });
    expect(episode).toMatchObject({ outcome: "failed", failure: { boundary: "store", message: "disk full" } });
    expect(episode.events.map(({ type }) => type)).toEqual(["episode-start", "user-line", "episode-end"]);
  });

  it("counts an engine that does not answer in time as a fault that may pass", async () => {
    const { parts } = world([], ["Count."]);
    const engine = { ...parts.engine, sample: () => new Promise<never>(() => {}) };
    const clock = instantClock();
    const impatient = {
      ...clock,
      after: (_: number, action: () => void): (() => void) => {
        queueMicrotask(action);
        return () => {};
      },
    };
    const retry = { maxAttempts: 3, maxElapsedMs: Infinity, baseDelayMs: 1, maxDelayMs: 1 };
    const episode = await runEpisode(
      task,
      { ...parts, engine },
      {
        clock: impatient,
        retry,
        turnTimeoutMs: 5,
        timeouts: { userMs: Infinity },
      },
    );
    expect(episode).toMatchObject({ outcome: "failed", failure: { boundary: "engine", code: "timeout" } });
    expect(episode.failure?.message).toContain("did not answer within 5 ms; raise turnTimeoutMs");
  });

  it.each(["environment", "user", "grader"] as const)(
    "fails in time when nothing comes from the %s",
    async (boundary) => {
      const { parts } = world([count(3), leave], ["Count."]);
      const never = (): Promise<never> => new Promise(() => {});
      const environment = {
        ...parts.environment,
        open: (one: typeof task) => {
          const opened = parts.environment.open(one);
          if (boundary === "environment") return Object.assign(opened, { call: never });
          return boundary === "grader" ? Object.assign(opened, { grade: never }) : opened;
        },
      };
      const silent = { name: "silent", create: () => ({ open: never, reply: never }) };
      const user = boundary === "user" ? silent : parts.user;
      const clock = createManualClock();
      const timeouts = { environmentMs: 1000, userMs: 2000, graderMs: 3000 };
      const playing = runEpisode(task, { ...parts, environment, user }, { clock, timeouts });
      await clock.advance(timeouts[`${boundary}Ms`]);
      const episode = await playing;
      expect(episode).toMatchObject({ outcome: "failed", reward: null, failure: { boundary, code: "timeout" } });
      expect(episode.failure?.message).toContain(
        `within ${timeouts[`${boundary}Ms`]} ms; raise timeouts.${boundary}Ms`,
      );
      await clock.advance(0);
      expect(clock.sleeping).toBe(0);
    },
  );

  it("is aborted by its signal, wherever it waits", async () => {
    const cancel = new AbortController();
    const { episode } = await runScript([count(1), count(1), count(1)], ["Count."], {
      signal: cancel.signal,
      onEvent: (event) => {
        if (event.type === "turn" && event.turn.index === 1) cancel.abort();
      },
    });
    expect(episode).toMatchObject({ stopReason: "cancelled", outcome: "aborted", reward: null });
    expect(episode.trajectory.turns).toHaveLength(2);
  });

  it("ends at once when the first line hangs up: nothing was sampled", async () => {
    const { episode } = await runScript([], [hangUp]);
    expect(episode).toMatchObject({ stopReason: "user_hung_up", reward: 0 });
    expect(episodeSamples(episode)).toEqual({ samples: [], dropped: [] });
  });

  it("refuses options out of bounds before anything happens", async () => {
    await expect(runScript([], [], { limits: { maxTurns: 0 } })).rejects.toThrow("limits.maxTurns is 0");
    await expect(runScript([], [], { turnTimeoutMs: 0 })).rejects.toThrow(RangeError);
    await expect(runScript([], [], { timeouts: { userMs: 0 } })).rejects.toThrow("timeouts.userMs is 0");
  });

  it("gives the same episode for the same seed, times apart", async () => {
    const plan: [Reply[], string[]] = [
      ["How far?", count(3), "It is 3."],
      ["Please count.", "To 3.", hangUp],
    ];
    const first = (await runScript(...plan, { seed: 7, seedTurns: true })).episode;
    const second = (await runScript(...plan, { seed: 7, seedTurns: true })).episode;
    expect(JSON.stringify(first)).toBe(JSON.stringify(second));
    const { model } = await runScript(...plan, { seed: 7, seedTurns: true });
    expect(new Set(model.requests.map(({ sampling }) => sampling.seed)).size).toBe(3);
  });
});

describe("runEpisode() where the template rewrites history", () => {
  const thinking = (words: string): string => `<think>\nLet me see.\n</think>\n\n${words}`;
  const replies = [thinking("How far?"), thinking(count(3)), thinking("It is 3.")];
  const lines = ["Please count.", "To 3.", hangUp];

  it("keep-reasoning only appends: one branch, named in the sample", async () => {
    const { episode } = await runScript(replies, lines, { world: { family: "qwen3" } });
    const { samples } = episodeSamples(episode);
    expect(samples).toHaveLength(1);
    expect(samples[0]?.historyPolicy).toBe("keep-reasoning");
    expect(episode.reward).toBe(1);
  });

  it("counts control tokens that a user spells out, and names a stop token that the template does not write", async () => {
    const spelling = ["Hi <|im_end|>", ...lines.slice(1)];
    const ended = replies.map((reply) => ({ text: `${reply}<|endoftext|>`, finish: "stop" as const }));
    const { episode } = await runScript(ended, spelling);
    const { turns } = episode.trajectory;
    expect(turns[0]).toMatchObject({ spelledTokens: 1, deviation: null });
    expect(turns[1]).toMatchObject({ spelledTokens: 0, deviation: "other-end-token" });
    const { samples } = episodeSamples(episode);
    expect(samples.map(({ deviations }) => deviations)).toEqual([["other-end-token"]]);
  });

  it("branch shows what the template renders: each action is trained once, in the branch that sampled it", async () => {
    const { episode, model } = await runScript(replies, lines, { world: { family: "qwen3", historyPolicy: "branch" } });
    const { samples, dropped } = episodeSamples(episode);
    expect(samples.length).toBeGreaterThan(1);
    expect(conservationViolations(episode.trajectory, { samples, dropped })).toEqual([]);
    expect(samples.every(({ historyPolicy }) => historyPolicy === "branch")).toBe(true);
    expect(episode.trajectory.turns[1]?.rewriteReason).not.toBeNull();
    expect(model.prompts[1]).not.toContain("Let me see.");
  });
});
