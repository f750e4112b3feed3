import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { AttributedError, ConfigurationError, type Message, type Tool, toolFromDefinition } from "../core/index.ts";
import { fromPlain, type JsonObject } from "../python-semantics/json/index.ts";
import { createManualClock } from "../lib/clock.test-helper.ts";
import { chatAgent, type ChatAgentOptions } from "./chat-agent.ts";
import { answering, bodyOf, fakeServer, says } from "./fake-chat.test-helper.ts";

const url = "http://127.0.0.1:8000/v1";
const parameters = { type: "object", properties: { id: { type: "string" } }, required: ["id"] };
const definition = { type: "function", function: { name: "get_order", description: "Looks.", parameters } };
const tools: readonly Tool[] = [toolFromDefinition(fromPlain(definition) as JsonObject)];
const opening: readonly Message[] = [
  { role: "system", content: "Be kind." },
  { role: "user", content: "Hi" },
];
const agentOf = (options: ChatAgentOptions) => chatAgent({ model: "m", url, random: () => 0, ...options });
const ask = (options: ChatAgentOptions, messages = opening) =>
  agentOf(options).reply({ messages, tools, turn: 4, seed: null });

/** A completion with this message. */
const completion = (message: unknown, rest: object = {}) => ({
  body: { choices: [{ message, finish_reason: "stop", ...rest }], usage: { prompt_tokens: 10, completion_tokens: 5 } },
});
const called = (name: string, argumentsText: unknown, id: unknown = "srv_1") => ({
  id,
  type: "function",
  function: { name, arguments: argumentsText },
});

describe("chatAgent() on an OpenAI-compatible server", () => {
  it("sends the conversation, the tools and what it was told about sampling, and nothing else", async () => {
    const http = answering(says("Hello."));
    await agentOf({ http, sampling: { temperature: 0, maxNewTokens: 9 }, extraBody: { top_k: 3 } }).reply({
      messages: opening,
      tools,
      turn: 0,
      seed: 7,
    });
    expect(bodyOf(http.requests[0])).toEqual({
      model: "m",
      messages: opening,
      tools: [definition],
      temperature: 0,
      max_tokens: 9,
      seed: 7,
      top_k: 3,
    });
    const bare = answering(says("Hello."));
    await agentOf({ http: bare }).reply({ messages: opening, tools: [], turn: 0, seed: null });
    expect(bodyOf(bare.requests[0])).toEqual({ model: "m", messages: opening });
  });

  it("reads words, calls, thinking and a cut, with usage and cost", async () => {
    const message = {
      role: "assistant",
      content: "Let me look.",
      reasoning_content: "hm",
      tool_calls: [called("get_order", '{"id": "#W1", "n": 100.0}'), called("get_order", "", null)],
    };
    const http = answering(completion(message, { finish_reason: "length" }));
    expect(await ask({ http, prices: { m: { input: 1e6, output: 1e6 } } })).toEqual({
      action: {
        text: "Let me look.",
        reasoning: "hm",
        content: "Let me look.",
        toolCalls: [
          { id: "srv_1", name: "get_order", argumentsText: '{"id": "#W1", "n": 100.0}' },
          { id: "call_4_1", name: "get_order", argumentsText: "{}" },
        ],
        problems: [],
        isTerminated: false,
      },
      usage: { modelCalls: 1, inputTokens: 10, outputTokens: 5, cost: 15 },
      attempts: [],
    });
  });

  it("keeps arguments that a server sends as an object without loss", async () => {
    const tool_calls = '[{"function": {"name": "get_order", "arguments": {"9": 1.0, "1": 10000000000000000000}}}]';
    const body = `{"choices": [{"message": {"content": null, "tool_calls": ${tool_calls}}}]}`;
    const { action, usage } = await ask({ http: answering({ body }) });
    expect(action.toolCalls[0]?.argumentsText).toBe('{"9": 1.0, "1": 10000000000000000000}');
    expect(usage.cost).toBeNull();
  });

  it("shows a server its calls and results, and makes harmless what servers refuse", async () => {
    const call = { id: "c1", name: "get order!", argumentsText: '{"id": ' };
    const messages: readonly Message[] = [
      ...opening,
      { role: "assistant", content: "", reasoning: "secret", toolCalls: [call] },
      { role: "tool", content: "Error: no", name: "get order!", callId: "c1" },
      { role: "assistant", content: "", reasoning: null, toolCalls: [] },
      { role: "tool", content: "Error: nothing was carried out.", name: "unknown", callId: null },
    ];
    const http = answering(says("ok"));
    await ask({ http }, messages);
    expect(bodyOf(http.requests[0]).messages.slice(2)).toEqual([
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: "c1", type: "function", function: { name: "get_order_", arguments: "{}" } }],
      },
      { role: "tool", tool_call_id: "c1", name: "get_order_", content: "Error: no" },
      { role: "assistant", content: "" },
      { role: "user", content: "Error: nothing was carried out." },
    ]);
  });

  it.each([
    ["I think ###</think>\n\nHello.", "I think ###", "Hello."],
    ["Hello. <think>Or not.</think>", "Or not.", "Hello."],
    ["Hello.\n<think>Or", "Or", "Hello."],
    ["<thought>hm</thought>Hello.", "hm", "Hello."],
  ])("does not say its reasoning: %j", async (text, reasoning, content) => {
    const { action } = await ask({ http: answering(says(text)) });
    expect(action).toMatchObject({ text, reasoning, content });
    const split = completion({ content: text, reasoning_content: "first" });
    expect((await ask({ http: answering(split) })).action).toMatchObject({
      reasoning: `first\n\n${reasoning}`,
      content,
    });
  });

  it.each([
    [
      [
        { type: "thinking", thinking: [{ type: "text", text: "hm" }] },
        { type: "text", text: "Hello." },
      ],
    ],
    [
      [
        { type: "reasoning", text: "hm" },
        { type: "output_text", text: "Hello." },
      ],
    ],
    [[{ type: "thinking", thinking: "hm" }, { text: "Hello." }]],
  ])("keeps parts of reasoning apart from those of text: %j", async (content) => {
    const { action } = await ask({ http: answering(completion({ content })) });
    expect(action).toMatchObject({ reasoning: "hm", content: "Hello." });
  });

  it("asks again for a reply that is nothing but reasoning, and then takes it as saying nothing", async () => {
    const clock = createManualClock();
    const thinks = completion({ content: null, reasoning_content: "hm" });
    const http = answering(thinks, says("hm</think>"), says("ok"));
    const asked = ask({ http, clock });
    await clock.drain();
    const { action, attempts, usage } = await asked;
    expect(action).toMatchObject({ reasoning: null, content: "ok" });
    expect(attempts).toMatchObject([{ failure: { code: "empty-reply" } }, { failure: { code: "empty-reply" } }]);
    expect(usage.modelCalls).toBe(3);
    const always = fakeServer(() => thinks);
    const asking = ask({ http: always, clock });
    await clock.drain();
    expect((await asking).action).toMatchObject({ reasoning: "hm", content: "", toolCalls: [], isTerminated: true });
    expect(always.requests.length).toBe(3);
    // A call counts as content, and truncated reasoning is an action that is marked as cut off.
    const calls = completion({ content: "hm</think>", tool_calls: [called("get_order", "{}")] });
    expect((await ask({ http: answering(calls) })).action.toolCalls).toHaveLength(1);
    const cut = completion({ content: "<think>hm" }, { finish_reason: "length" });
    expect((await ask({ http: answering(cut) })).action).toMatchObject({ content: "", isTerminated: false });
  });

  it("takes silence as an answer, since a bad turn is data", async () => {
    const { action } = await ask({ http: answering(says(null)) });
    expect(action).toMatchObject({ text: "", content: "", toolCalls: [] });
  });

  it("tries again what may pass, and tells of each attempt; all calls count", async () => {
    const clock = createManualClock();
    const http = answering(
      { status: 429, headers: { "retry-after": "7" }, body: "slow" },
      { body: "<html>" },
      says("ok"),
    );
    const asked = ask({ http, clock });
    await clock.drain();
    const { attempts, usage } = await asked;
    expect(attempts).toMatchObject([
      { failure: { boundary: "engine", code: "rate-limited" }, waitedMs: 7250 },
      { failure: { boundary: "engine", code: "bad-reply" } },
    ]);
    expect(usage.modelCalls).toBe(3);
  });

  it.each([
    [401, "", "unauthorized"],
    [400, '{"error": {"message": "maximum context length is 8192"}}', "context-length"],
    [404, "", "bad-request"],
  ])("attributes an answer of %i %s to the engine, whose place it takes", async (status, body, code) => {
    const error: unknown = await ask({ http: answering({ status, body }) }).catch((reason: unknown) => reason);
    if (!(error instanceof AttributedError)) throw error;
    expect(error.failure).toMatchObject({ boundary: "engine", code, retryable: false });
    expect(error.failure.message).toContain(`get a reply from agent model "m" at ${url}/chat/completions`);
  });

  it("holds its limits over all episodes", async () => {
    const clock = createManualClock();
    let [running, most] = [0, 0];
    const http = fakeServer(async () => {
      most = Math.max(most, ++running);
      await clock.sleep(10);
      running--;
      return says("ok");
    });
    const agent = agentOf({ http, clock, maxConcurrency: 2 });
    const all = [1, 2, 3, 4, 5].map((turn) => agent.reply({ messages: opening, tools, turn, seed: null }));
    await clock.drain();
    await Promise.all(all);
    expect(most).toBe(2);
  });

  it.each([
    [{ model: "" }, "Cannot create the agent: it has no model"],
    [{ url: "localhost:8000" }, "the scheme is missing"],
    [{ maxConcurrency: 0 }, "Cannot call the agent model: maxConcurrency is 0"],
  ])("refuses %j before any call", (options, state) => {
    expect(() => agentOf({ http: answering(), ...options })).toThrow(ConfigurationError);
    expect(() => agentOf({ http: answering(), ...options })).toThrow(state);
  });

  it("reads any answer of a server, or names it, and can send back what it read", async () => {
    const clock = createManualClock();
    const retry = { maxAttempts: 1, maxElapsedMs: 0, baseDelayMs: 0, maxDelayMs: 0 };
    const odd = fc.oneof(fc.jsonValue(), fc.constantFrom("", "{", null, [], {}));
    const call = fc.oneof(
      odd,
      fc.record({ id: odd, function: fc.oneof(odd, fc.record({ name: odd, arguments: odd })) }),
    );
    const message = fc.record({
      content: odd,
      tool_calls: fc.oneof(odd, fc.array(call, { maxLength: 3 })),
      reasoning: odd,
    });
    await fc.assert(
      fc.asyncProperty(fc.oneof(odd, message), async (written) => {
        const answer = await ask({ http: answering(completion(written)), clock, retry }).catch(
          (error: unknown) => error,
        );
        if (answer instanceof AttributedError) {
          expect(answer.failure.code).toBe("bad-reply");
          return;
        }
        const { action } = answer as Awaited<ReturnType<typeof ask>>;
        const history: readonly Message[] = [
          { role: "assistant", content: action.content, reasoning: action.reasoning, toolCalls: action.toolCalls },
        ];
        const http = answering(says("ok"));
        await ask({ http }, history);
        for (const { function: sent } of bodyOf(http.requests[0]).messages.flatMap(
          (one) => ("tool_calls" in one ? one.tool_calls : []) as { function: { name: string; arguments: string } }[],
        )) {
          expect(sent.name).toMatch(/^[A-Za-z0-9_-]{1,64}$/);
          expect(typeof JSON.parse(sent.arguments)).toBe("object");
        }
      }),
      { seed: 3, numRuns: 300 },
    );
  });
});
