// Outcome of an episode when something around it fails: each row of the table in docs/models.md,
// against the servers' protocols, without sockets and without waiting. Cases that need sockets are
// in `fault-table.wire.test.ts`, aborts are in `partial-turns.test.ts`.

import { describe, expect, it } from "vitest";
import { type FakeAnswer, fakeServer, says } from "../../chat-models/fake-chat.test-helper.ts";
import { AttributedError, type Engine, type Episode, type EpisodeEvent } from "../../core/index.ts";
import { createGuardedEngine } from "../../engines/guarded/index.ts";
import { createSglangEngine } from "../../engines/sglang/index.ts";
import { createVllmEngine } from "../../engines/vllm/index.ts";
import { createHandlerClient } from "../../http/handler-client.test-helper.ts";
import { createFunctionSampler, createSglangFront, createVllmFront } from "../../testing/index.ts";
import { createManualClock } from "../../lib/clock.test-helper.ts";
import { llmUser } from "../../users/index.ts";
import { count, instantClock, leave, task, tokenizer, world } from "./episode-world.test-helper.ts";
import { defaultEngineRetry, episodeSamples, type EpisodeOptions, runEpisode } from "../index.ts";

/** Behaviour of the server in place of an answer; `null`: it answers. */
type Disturbance = (() => Response | never) | null;

/** A server that goes through the disturbances in order, then a policy that counts to 3 and leaves. */
const engines: Readonly<Record<string, (disturbances: readonly Disturbance[], contextLength?: number) => Engine>> = {
  sglang: (disturbances, contextLength = 4096) => {
    const front = createSglangFront({ sampler: policy(), contextLength });
    return createSglangEngine({ http: clientOf(front, "/generate", disturbances) });
  },
  vllm: (disturbances, contextLength = 4096) => {
    const front = createVllmFront({ sampler: policy(), contextLength });
    return createVllmEngine({ http: clientOf(front, "/inference/v1/generate", disturbances), endpoint: "generate" });
  },
};

function policy() {
  const texts = [count(3), leave].map((text) => tokenizer.encode(`${text}<|im_end|>`));
  return createFunctionSampler(({ requestId }) => ({ ids: texts[Number(/_t(\d+)_r\d+$/.exec(requestId)?.[1])]! }));
}

function clientOf(
  front: { handle(asked: Request): Promise<Response> },
  path: string,
  disturbances: readonly Disturbance[],
) {
  const left = [...disturbances];
  return createHandlerClient(
    async (asked) => {
      const disturb = new URL(asked.url).pathname === path ? left.shift() : null;
      return disturb ? disturb() : front.handle(asked);
    },
    { boundary: "engine" },
  );
}

const refusing =
  (status: number, headers: Readonly<Record<string, string>> = {}, words = "not now"): Disturbance =>
  () =>
    Response.json({ error: { message: words, code: status } }, { status, headers });
const lost: Disturbance = () => {
  throw Object.assign(new Error("reset"), { code: "ECONNRESET" });
};
const garbled: Disturbance = () => new Response("<html>");

async function runScript(engine: Engine, options: EpisodeOptions = {}) {
  const clock = instantClock();
  const { parts } = world([], ["Count to 3."]);
  const episode = await runEpisode(task, { ...parts, engine }, { clock, ...options });
  const turns = episode.events.filter((event) => event.type === "turn");
  return { episode, clock, attempts: turns.flatMap(({ attempts }) => attempts) };
}

/** Overflow messages of the servers, of old and new versions. */
const overflows: Readonly<Record<string, readonly string[]>> = {
  sglang: [
    "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
    "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of 5000 tokens: 3976 tokens from the input messages and 1024 tokens for the completion.",
    "Input length (5000 tokens) exceeds the maximum allowed length (4090 tokens). Use a shorter input or enable --allow-auto-truncate.",
  ],
  vllm: [
    "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (3976 in the messages, 1024 in the completion).",
    "This model's maximum context length is 4096 tokens. However, you requested 1024 output tokens and your prompt contains at least 3976 input tokens.",
  ],
};

describe.each(Object.entries(engines))("engine %s", (engineName, make) => {
  it.each([
    ["408", refusing(408), "timeout"],
    ["429", refusing(429), "overloaded"],
    ["500", refusing(500), "server-error"],
    ["502", refusing(502), "server-error"],
    ["503", refusing(503), "overloaded"],
    ["504", refusing(504), "timeout"],
    ["a lost connection", lost, "connection-lost"],
    ["a garbled answer", garbled, "bad-reply"],
  ])("%s is tried again and stands in the log of the turn", async (_fault, disturb, code) => {
    const { episode, clock, attempts } = await runScript(make([disturb, disturb, null, disturb]));
    expect(episode).toMatchObject({ outcome: "completed", reward: 1, failure: null });
    expect(attempts.map(({ failure }) => [failure.boundary, failure.code, failure.retryable])).toEqual(
      [code, code, code].map((each) => ["engine", each, true]),
    );
    expect(clock.waited).toEqual(attempts.map(({ waitedMs }) => waitedMs));
    expect(episodeSamples(episode).samples).toHaveLength(1);
  });

  it.each([
    ["429", refusing(429), "overloaded"],
    ["500", refusing(500), "server-error"],
    ["a lost connection", lost, "connection-lost"],
  ])("%s for ever fails at the engine, after waits that grow and end in time", async (_fault, disturb, code) => {
    const { episode, clock } = await runScript(make(Array.from({ length: 100 }, () => disturb)));
    expect(episode).toMatchObject({ outcome: "failed", reward: null, failure: { boundary: "engine", code } });
    expect(episodeSamples(episode)).toEqual({ samples: [], dropped: [] });
    const { baseDelayMs, maxDelayMs, maxElapsedMs, maxAttempts } = defaultEngineRetry;
    expect(clock.waited).toHaveLength(maxAttempts - 1);
    clock.waited.forEach((ms, index) => {
      const most = Math.min(maxDelayMs, baseDelayMs * 2 ** index);
      expect(ms).toBeGreaterThanOrEqual(most / 2);
      expect(ms).toBeLessThanOrEqual(most);
    });
    expect(clock.now()).toBeLessThanOrEqual(maxElapsedMs);
    // Episodes that fail at the same time do not retry at the same time.
    const other = await runScript(make(Array.from({ length: 100 }, () => disturb)), { seed: 1 });
    expect(other.clock.waited).not.toEqual(clock.waited);
  });

  it("waits at least as long as the server asks, in seconds or until a date, and not beyond its own time", async () => {
    const dated = { "retry-after": "Sat, 21 Nov 2026 12:00:40 GMT", date: "Sat, 21 Nov 2026 12:00:00 GMT" };
    const { attempts, episode } = await runScript(make([refusing(429, { "retry-after": "7" }), refusing(503, dated)]));
    expect(episode.outcome).toBe("completed");
    expect(attempts[0]!.waitedMs).toBeGreaterThanOrEqual(7000);
    expect(attempts[1]!.waitedMs).toBeGreaterThanOrEqual(40_000);
    const patient = await runScript(make([refusing(429, { "retry-after": "86400" })]));
    expect(patient.episode.failure).toMatchObject({ boundary: "engine", code: "overloaded" });
    expect(patient.clock.waited).toEqual([]);
  });

  it.each([
    [400, "bad-request"],
    [401, "unauthorized"],
    [404, "bad-request"],
    [422, "bad-request"],
  ])("HTTP %i is not tried again", async (status, code) => {
    const { episode, clock } = await runScript(make([refusing(status)]));
    expect(episode).toMatchObject({ outcome: "failed", reward: null, failure: { boundary: "engine", code } });
    expect(clock.waited).toEqual([]);
  });

  it.each(overflows[engineName]!)(
    "a context that is full is a stop reason, and the episode is graded: %s",
    async (words) => {
      const { episode, clock } = await runScript(make([null, refusing(400, {}, words)]));
      expect(episode).toMatchObject({ outcome: "truncated", stopReason: "context_length", failure: null, reward: 0 });
      expect(clock.waited).toEqual([]);
      expect(episodeSamples(episode).samples).toHaveLength(1);
    },
  );

  it("a prompt that the server itself finds too long ends the episode in the same way", async () => {
    const { episode } = await runScript(make([], 32));
    expect(episode).toMatchObject({ outcome: "truncated", stopReason: "context_length", reward: 0 });
  });

  it("behind a guard that has seen enough, the episode fails once with what the server said last", async () => {
    const clock = instantClock();
    const timers: (() => void)[] = [];
    // A clock whose deadlines the test expires by hand.
    const impatient = { ...clock, after: (_ms: number, action: () => void) => (timers.push(action), () => undefined) };
    const engine = createGuardedEngine([make(Array.from({ length: 100 }, () => refusing(500)))], {
      failures: 3,
      clock: impatient,
    });
    const { parts } = world([], ["Count to 3."]);
    const playing = runEpisode(task, { ...parts, engine }, { clock });
    const turns = createManualClock();
    for (let step = 0; step < 200 && timers.length === 0; step++) await turns.advance(0);
    timers[0]?.();
    const episode = await playing;
    expect(episode).toMatchObject({ outcome: "failed", failure: { boundary: "engine", code: "unreachable" } });
    expect(episode.failure?.message).toContain("after 3 failures in a row, the last of them: Cannot sample from");
  });
});

describe("the model that plays the user", () => {
  const failing = (status: number, headers: Readonly<Record<string, string>> = {}): FakeAnswer => ({
    status,
    headers,
    body: { error: { message: "not now" } },
  });
  async function playUser(http: ReturnType<typeof fakeServer>) {
    const clock = instantClock();
    const { parts } = world([leave], []);
    const user = llmUser({ model: "m", url: "http://user", http, clock, random: () => 0.5 });
    return { episode: await runEpisode(task, { ...parts, user }, { clock }), clock };
  }
  const firstLine = ({ events }: Episode): EpisodeEvent | undefined => events.find(({ type }) => type === "user-line");

  it("is asked again after 429, 5xx and lost connections, as late as its server wants, and every call is counted", async () => {
    const gone = { boundary: "user", code: "connection-lost", message: "gone", retryable: true, cause: null } as const;
    const http = fakeServer((_request, _options, index) => {
      if (index === 2) throw new AttributedError(gone);
      return [failing(429, { "retry-after": "3" }), failing(500), failing(0), says("Count.")][index]!;
    });
    const { episode, clock } = await playUser(http);
    expect(episode).toMatchObject({ outcome: "completed", stopReason: "tool_ended", failure: null });
    const line = firstLine(episode);
    expect(line?.type === "user-line" && line.line).toMatchObject({ text: "Count.", usage: { modelCalls: 4 } });
    expect(clock.waited).toHaveLength(3);
    expect(clock.waited[0]).toBeGreaterThanOrEqual(3000);
  });

  it.each([429, 500])("HTTP %i for ever fails at the user: no reward, no samples", async (status) => {
    const { episode, clock } = await playUser(fakeServer(() => failing(status)));
    expect(episode).toMatchObject({ outcome: "failed", reward: null, failure: { boundary: "user", retryable: true } });
    expect(episodeSamples(episode)).toEqual({ samples: [], dropped: [] });
    expect(clock.waited.length).toBeGreaterThan(3);
    expect(clock.now()).toBeLessThanOrEqual(180_000);
    expect(firstLine(episode)).toBeUndefined();
  });
});
