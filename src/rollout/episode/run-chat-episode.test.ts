import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { agentFactory, strategyNames } from "../../agents/index.ts";
import {
  chatAgent,
  type ChatMessage,
  type ChatModel,
  type ChatOptions,
  type ChatReply,
} from "../../chat-models/index.ts";
import { AttributedError, type ChatAgent, type Episode, type ModelUsage } from "../../core/index.ts";
import { parseJson } from "../../python-semantics/json/parse-json.ts";
import { episodeFromJson, episodeLine } from "../../store/index.ts";
import { scriptedUsers } from "../../users/index.ts";
import { count, counter, instantClock, task, world } from "./episode-world.test-helper.ts";
import { type ChatEpisodeParts, episodeSamples, episodeUsage, runChatEpisode, runEpisode } from "../index.ts";

const hangUp = "###STOP###";
const usage: ModelUsage = { modelCalls: 1, inputTokens: 10, outputTokens: 5, cost: 0.25 };
type Said = Partial<ChatReply> | string;

const replyOf = (said: Said): ChatReply => ({
  text: "",
  reasoning: null,
  toolCalls: [],
  isTruncated: false,
  usage,
  ...(typeof said === "string" ? { text: said } : said),
});
const calls = (name: string, given: unknown, id: string | null = null) => ({
  toolCalls: [{ id, name, argumentsText: typeof given === "string" ? given : JSON.stringify(given) }],
});

/** A model that cycles through given replies and remembers the requests that it was shown. */
function model(replies: readonly Said[]) {
  const shown: { readonly messages: readonly ChatMessage[]; readonly options: ChatOptions }[] = [];
  const chat: ChatModel = {
    name: "scripted",
    complete: (messages, options = {}) => {
      const said = replies[shown.length % replies.length] ?? "";
      shown.push({ messages, options });
      return Promise.resolve(replyOf(said));
    },
  };
  return { chat, shown };
}

function parts(agent: ChatAgent, lines: readonly string[], strategy = "tool-calling"): ChatEpisodeParts {
  const displays = ["user: Hi\nassistant: Hello"];
  return {
    environment: counter,
    user: scriptedUsers(lines),
    strategy: agentFactory({ strategy, displays, displayCount: 1 }),
    agent,
  };
}

const runScript = (
  chat: ChatModel,
  lines: readonly string[],
  options: Parameters<typeof runChatEpisode>[2] & { readonly strategy?: string } = {},
) => runChatEpisode(task, parts(chatAgent({ chat }), lines, options.strategy), { clock: instantClock(), ...options });

describe("runChatEpisode()", () => {
  it("plays what runEpisode plays: same user, same results, same reward, and no tokens", async () => {
    const lines = ["Please count.", "To 3.", `Bye ${hangUp}`];
    const { parts: trainable } = world(["How far?", count(3), "It is 3."], lines);
    const expected = await runEpisode(task, trainable, { clock: instantClock() });
    const episode = await runScript(model(["How far?", calls("count", { by: 3 }), "It is 3."]).chat, lines);
    const told = ({ events }: Episode): unknown[] =>
      events.map((event) => {
        if (event.type === "turn" || event.type === "agent-reply") return "turn";
        return event.type === "decision" ? { ...event.decision, call: null } : event;
      });
    expect(told(episode)).toEqual(told(expected));
    expect([episode.reward, episode.stopReason, episode.outcome]).toEqual([1, "user_hung_up", "completed"]);
    expect([episode.historyPolicy, episode.trajectory]).toEqual(["no-tokens", { turns: [] }]);
    expect(episodeSamples(episode)).toEqual({ samples: [], dropped: [] });
  });

  it("shows the model the whole conversation and the tools, and answers its call by the id the server gave", async () => {
    const { chat, shown } = model([{ text: "Counting.", ...calls("count", { by: 3 }, "srv_7") }, "Done."]);
    const episode = await runScript(chat, ["Count.", hangUp], { seed: 5, seedTurns: true });
    expect(shown.map(({ messages }) => messages.length)).toEqual([2, 4]);
    expect(shown[1]?.messages).toEqual(episode.messages.slice(0, 4));
    expect(episode.messages.slice(2, 4)).toEqual([
      {
        role: "assistant",
        content: "Counting.",
        reasoning: null,
        toolCalls: [{ id: "srv_7", name: "count", argumentsText: '{"by":3}' }],
      },
      { role: "tool", content: '{"count": 3}', name: "count", callId: "srv_7" },
    ]);
    expect(shown[0]?.options.tools?.map(({ name }) => name)).toEqual(["count", "leave"]);
    const seeds = shown.map(({ options }) => options.seed);
    expect(new Set(seeds).size).toBe(2);
    expect(seeds.every((seed) => Number.isInteger(seed))).toBe(true);
  });

  it("keeps in the history the one call that gets an answer, and numbers calls without an id by turn and place", async () => {
    const two = [...calls("count", { by: 1 }).toolCalls, ...calls("count", { by: 2 }).toolCalls];
    const { chat, shown } = model([{ toolCalls: two }, { text: "Hm.", ...calls("count", "5") }, "Done."]);
    const episode = await runScript(chat, ["Count.", "And?", hangUp]);
    expect(shown[1]?.messages[2]).toMatchObject({ toolCalls: [{ id: "call_0_0" }] });
    // A call whose arguments are not an object is dropped, and the text beside it becomes speech.
    expect(shown[2]?.messages[4]).toMatchObject({ content: "Hm.", toolCalls: [] });
    expect(episode.problems.map(({ code }) => code)).toEqual(["several-calls", "not-an-object"]);
  });

  it("keeps the thinking of a model from the user and from the words in the history", async () => {
    const { chat } = model(["<think>\nhm\n</think>\n\nHow far?", { text: "Bye.", reasoning: "done" }]);
    const episode = await runScript(chat, ["Count.", "To 3.", hangUp]);
    expect(episode.messages.filter(({ role }) => role === "assistant")).toMatchObject([
      { content: "How far?", reasoning: "\nhm\n" },
      { content: "Bye.", reasoning: "done" },
    ]);
    expect(episode.events.flatMap((event) => (event.type === "decision" ? [event.decision] : []))).toMatchObject([
      { type: "say", content: "How far?" },
      { type: "say", content: "Bye." },
    ]);
  });

  it("sums usage and cost over the episode, and one unknown price makes the sum unknown", async () => {
    const priced = await runScript(model(["One.", "Two.", "Three."]).chat, ["a", "b", "c", hangUp]);
    expect(episodeUsage(priced)).toEqual({
      agent: { modelCalls: 3, inputTokens: 30, outputTokens: 15, cost: 0.75 },
      user: { modelCalls: 0, inputTokens: 0, outputTokens: 0, cost: 0 },
      judge: { modelCalls: 0, inputTokens: 0, outputTokens: 0, cost: 0 },
    });
    const unknown = await runScript(model(["One.", { text: "Two.", usage: { ...usage, cost: null } }]).chat, [
      "a",
      "b",
      hangUp,
    ]);
    expect(episodeUsage(unknown).agent).toMatchObject({ modelCalls: 2, cost: null });
  });

  it("can be stored and read back", async () => {
    const episode = await runScript(model(["How far?", { reasoning: "r", ...calls("count", { by: 3.0 }) }]).chat, [
      "a",
      "b",
      hangUp,
    ]);
    expect(episodeFromJson(parseJson(episodeLine(episode)), "here")).toEqual(episode);
  });

  it("stops at its limits: turns, and tokens as the provider reports them", async () => {
    const lines = ["a", "b", "c", "d", "e"];
    expect(await runScript(model(["x"]).chat, lines, { limits: { maxTurns: 2 } })).toMatchObject({
      stopReason: "max_turns",
    });
    const { chat, shown } = model(["x"]);
    expect(await runScript(chat, lines, { limits: { maxSampledTokens: 6 } })).toMatchObject({
      stopReason: "max_tokens",
    });
    expect(shown.length).toBe(2);
  });

  it.each([
    ["context-length", "context_length", "truncated", null],
    ["rate-limited", "fault", "failed", "rate-limited"],
  ])("ends by %s as an engine's episode does", async (code, stopReason, outcome, failed) => {
    const failure = { boundary: "engine", code, message: "no", retryable: false, cause: null } as const;
    const agent: ChatAgent = { name: "x", reply: () => Promise.reject(new AttributedError(failure)) };
    const episode = await runChatEpisode(task, parts(agent, ["a"]), { clock: instantClock() });
    expect(episode).toMatchObject({ stopReason, outcome });
    expect(episode.failure?.code ?? null).toBe(failed);
  });

  it("attributes whatever else escapes from an agent to the engine", async () => {
    const agent: ChatAgent = { name: "x", reply: () => Promise.reject(new Error("odd")) };
    const episode = await runChatEpisode(task, parts(agent, ["a"]), { clock: instantClock() });
    expect(episode.failure).toMatchObject({ boundary: "engine", message: "odd" });
  });

  it("is cancelled while it waits for the agent", async () => {
    const controller = new AbortController();
    const chat: ChatModel = {
      name: "silent",
      complete: (_messages, { signal } = {}) =>
        new Promise((_, reject) => {
          signal?.addEventListener("abort", () => reject(signal.reason as Error));
          controller.abort(new Error("enough"));
        }),
    };
    const episode = await runScript(chat, ["a"], { signal: controller.signal });
    expect(episode).toMatchObject({ stopReason: "cancelled", outcome: "aborted", failure: null });
  });
});

describe("act, react and few-shot with an agent behind an API", () => {
  it.each(["act", "react"])(
    "%s shows no tools, carries out JSON and gives results in the user's place",
    async (strategy) => {
      const { chat, shown } = model([
        'Thought:\nI count.\nAction:\n{"name": "count", "arguments": {"by": 3}}',
        'Action:\n{"name": "respond", "arguments": {"content": "It is 3."}}',
      ]);
      const episode = await runScript(chat, ["Count.", hangUp], { strategy });
      expect(episode.reward).toBe(1);
      expect(shown.every(({ options }) => options.tools?.length === 0)).toBe(true);
      expect(shown[1]?.messages.slice(2)).toEqual([
        {
          role: "assistant",
          content: 'Thought:\nI count.\nAction:\n{"name": "count", "arguments": {"by": 3}}',
          reasoning: null,
          toolCalls: [],
        },
        { role: "user", content: 'API output: {"count": 3}' },
      ]);
      expect(episode.events).toContainEqual(
        expect.objectContaining({ type: "decision", decision: { type: "say", content: "It is 3.", problems: [] } }),
      );
    },
  );

  it("few-shot shows its examples and calls tools", async () => {
    const { chat, shown } = model([calls("count", { by: 3 }), "It is 3."]);
    const episode = await runScript(chat, ["Count.", hangUp], { strategy: "few-shot" });
    expect(episode.reward).toBe(1);
    expect(shown[0]?.messages[0]?.content).toBe("Count when asked.\n\nExample 1:\nuser: Hi\nassistant: Hello");
    expect(shown[0]?.options.tools?.length).toBe(2);
  });

  it.each(strategyNames)("%s ends in no fault and graded, whatever the model says", async (strategy) => {
    const text = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.constantFrom("", "Action:", "<think>", "<tool_call>", "null", 'Action: {"name": "count"}'),
      fc.json().map((value) => `Action:\n${value}`),
    );
    const name = fc.oneof(fc.constantFrom("count", "leave", "respond", "__proto__", ""), fc.string());
    const said = fc.record({
      text,
      reasoning: fc.option(fc.string()),
      toolCalls: fc.array(
        fc.record({ id: fc.option(fc.string()), name, argumentsText: fc.oneof(fc.json(), fc.string()) }),
        { maxLength: 3 },
      ),
      isTruncated: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(said, { minLength: 1, maxLength: 4 }), async (replies) => {
        const lines = Array.from({ length: 9 }, () => "Count.");
        const episode = await runScript(model(replies).chat, lines, { strategy, limits: { maxTurns: 6 } });
        expect([episode.failure, episode.grade === null]).toEqual([null, false]);
        expect(episodeFromJson(parseJson(episodeLine(episode)), "here")).toEqual(episode);
      }),
      { seed: 11, numRuns: 150 },
    );
  });

  it("goes on from its events wherever it was cut, and asks again for an answer that was not decided on", async () => {
    const said = [{ text: "Counting.", ...calls("count", { by: 3 }, "srv_7") }, "How many more?", "Done."];
    const lines = ["Count.", "None.", hangUp];
    const whole = await runScript(model(said).chat, lines);
    for (let length = 0; length <= whole.events.length; length++) {
      const kept = whole.events[length - 1];
      const from = kept?.type === "agent-reply" || kept?.type === "grade" ? length - 1 : length;
      const answered = whole.events.slice(0, from).filter(({ type }) => type === "agent-reply").length;
      const { chat, shown } = model(said.slice(answered));
      const emitted: unknown[] = [];
      const onEvent = (event: unknown): void => void emitted.push(event);
      const episode = await runScript(chat, lines, { resumeFrom: whole.events.slice(0, length), onEvent });
      expect(episode).toEqual(whole);
      expect(emitted).toEqual(whole.events.slice(from));
      expect(shown).toHaveLength(3 - answered);
    }
  });
});
