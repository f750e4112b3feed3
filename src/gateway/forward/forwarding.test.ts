import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Episode, EpisodeEvent } from "../../core/index.ts";
import { conversationOf } from "../../export/index.ts";
import { episodeSamples, episodeUsage } from "../../rollout/index.ts";
import { openRunFolder } from "../../store/index.ts";
import { chatClient, type Client, messagesClient, responsesClient } from "../clients.test-helper.ts";
import { eventsOf, post } from "../gateway-world.test-helper.ts";
import { type ApiWorld, openApiWorld, realKey } from "./api-world.test-helper.ts";

const call = (city: string): string =>
  `<tool_call>\n{"name": "get_weather", "arguments": {"city": "${city}"}}\n</tool_call>`;

/** Looks up two cities, then reports the results. */
function policy(prompt: string): string {
  const results = prompt.split("<tool_response>").length - 1;
  const first = prompt.includes("<tools>") && results < 2;
  return first ? `Let me look.\n${call(["Rome", "Oslo"][results]!)}` : "Sunny in both.";
}

async function converse({ gateway }: ApiWorld, client: Client, stream: boolean): Promise<readonly string[]> {
  const told: string[] = [];
  for (;;) {
    const answer = await post(gateway, client.path, client.body(stream), { key: "s1" });
    expect(answer.status, answer.text).toBe(200);
    told.push(answer.text);
    if (!client.take(answer, stream)) return told;
  }
}

const graded = { reward: 1, metrics: {}, log: "", info: new Map() };

async function ended({ gateway }: ApiWorld): Promise<Episode> {
  await gateway.reward("s1", graded);
  return gateway.end("s1");
}

type Exchange = Extract<EpisodeEvent, { readonly type: "exchange" }>;
const exchangesOf = ({ events }: Episode): readonly Exchange[] => events.filter((event) => event.type === "exchange");

const clients: readonly (readonly [string, () => Client])[] = [
  ["chat", chatClient],
  ["messages", messagesClient],
  ["responses, items echoed", () => responsesClient({ refers: "items" })],
  ["responses, items by reference", () => responsesClient({ refers: "references" })],
  ["responses, continued by id", () => responsesClient({ refers: "previous" })],
];

describe.each(clients)("a conversation over %s", (name, client) => {
  test.each([false, true])("is passed on and back as it is where the API speaks it, streamed: %s", async (stream) => {
    const world = await openApiWorld({ policy });
    const told = await converse(world, client(), stream);
    expect(world.calls.map(({ body }) => body["model"])).toEqual(Array.from({ length: 3 }, () => "real-model"));
    // Byte for byte equal, except for the token count that had to be requested for a chat stream.
    const answers = world.calls.map(({ answer }) =>
      name === "chat" ? answer.replace(/data: [^\n]*"choices":\[\],"usage":[^\n]*\n\n/, "") : answer,
    );
    expect(told.map((text) => (name === "chat" ? text.replaceAll(',"usage":null', "") : text))).toEqual(
      answers.map((text) => (name === "chat" ? text.replaceAll(',"usage":null', "") : text)),
    );
    // The conversation continues at the API as if the gateway did not exist.
    const [session] = world.upstream.gateway.sessions;
    expect(session?.counters).toMatchObject({ calls: 3, extended: 2, branched: {} });
    expectConversation(await ended(world));
    await world.close();
  });

  test.each([false, true])("is translated where the API has chat completions alone, streamed: %s", async (stream) => {
    const world = await openApiWorld({ policy, paths: ["/v1/chat/completions"] });
    await converse(world, client(), stream);
    const chats = world.calls.filter(({ path }) => path === "/v1/chat/completions");
    expect(chats).toHaveLength(3);
    // A missing path is tried only once.
    expect(world.calls.length - chats.length).toBe(name === "chat" ? 0 : 1);
    expectConversation(await ended(world));
    await world.close();
  });
});

/** Two lookups and an answer, each continuing the one before, without tokens. */
function expectConversation(episode: Episode): void {
  expect(episode).toMatchObject({ historyPolicy: "no-tokens", reward: 1, stopReason: "session_ended" });
  expect(episode.trajectory.turns).toEqual([]);
  expect(episodeSamples(episode)).toEqual({ samples: [], dropped: [] });
  expect(episode.messages.map(({ role }) => role)).toEqual([
    ...["system", "user", "assistant", "tool", "assistant", "tool", "assistant"],
  ]);
  const exchanges = exchangesOf(episode);
  expect(exchanges.map(({ turn, basis }) => [turn, basis])).toEqual([
    [0, null],
    [1, 0],
    [2, 1],
  ]);
  expect(exchanges.map(({ tools }) => tools?.length ?? null)).toEqual([1, null, null]);
  expect(exchanges.map(({ action }) => action.toolCalls.map(({ name }) => name))).toEqual([
    ["get_weather"],
    ["get_weather"],
    [],
  ]);
  expect(exchanges[2]?.action.content).toBe("Sunny in both.");
  // Exports distinguish the answers of this session from the messages before them.
  const { opening, rest } = conversationOf(episode);
  expect([opening.length, rest.length]).toEqual([2, 5]);
  expect(rest.map(({ role, tool_calls: calls }) => [role, calls?.[0]?.function.name ?? null])).toEqual([
    ...[
      ["assistant", "get_weather"],
      ["tool", null],
      ["assistant", "get_weather"],
      ["tool", null],
      ["assistant", null],
    ],
  ]);
  const { agent } = episodeUsage(episode);
  expect(agent.modelCalls).toBe(3);
  expect(agent.inputTokens).toBeGreaterThan(100);
  expect(agent.outputTokens).toBeGreaterThan(10);
}

describe("what goes on", () => {
  test("is the body as its program wrote it, with the model and the flags set in it", async () => {
    const image = { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } };
    const sent = {
      model: "gpt-4o",
      temperature: 0.7,
      top_p: 0.9,
      max_completion_tokens: 400,
      seed: 12345678901234567890n,
      messages: [
        { role: "user", name: "ann", content: [{ type: "text", text: "What is this?" }, image] },
        { role: "assistant", content: "Is it", refusal: null },
      ],
      tool_choice: "required",
      response_format: { type: "json_object" },
      reasoning_effort: "low",
      of_tomorrow: 1,
      tools: [{ type: "function", function: { name: "f", parameters: { type: "object", minimum: 1.0 } } }],
    };
    const text = JSON.stringify(sent, (_, value: unknown) => (typeof value === "bigint" ? "BIG" : value));
    const headers = {
      "content-type": "application/json",
      authorization: "Bearer s1",
      "openai-beta": "x",
      cookie: "no",
    };
    const written = text.replace('"BIG"', "12345678901234567890").replace('"minimum":1', '"minimum":1.0');
    const seen: string[] = [];
    const answer = (request: Request): null => {
      void request
        .clone()
        .text()
        .then((one) => seen.push(one));
      return null;
    };
    const world = await openApiWorld({
      answer,
      api: { extraBody: { top_k: 3 } },
      gateway: { sampling: { temperature: 0, maxNewTokens: 50 } },
    });
    await world.gateway.handle({
      method: "POST",
      url: "/v1/chat/completions",
      headers,
      body: Buffer.from(written),
    });
    const [{ body, headers: passed } = { body: {}, headers: {} }] = world.calls;
    const { seed: _, ...rest } = sent;
    expect(body).toMatchObject({
      ...rest,
      model: "real-model",
      temperature: 0,
      max_completion_tokens: 50,
      top_k: 3,
    });
    // Numbers keep their written form.
    expect(seen[0]).toContain("12345678901234567890");
    expect(seen[0]).toContain("1.0");
    expect(passed).toMatchObject({ authorization: `Bearer ${realKey}`, "openai-beta": "x" });
    expect(passed).not.toHaveProperty("cookie");
    expect(JSON.stringify(passed)).not.toContain("s1");
    await world.close();
  });

  test("shows parts without text by their kind in the record", async () => {
    const world = await openApiWorld({ answer: () => Response.json(completion("A cat.")) });
    const image = { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } };
    const messages = [{ role: "user", content: [{ type: "text", text: "What is this?" }, image] }];
    expect((await post(world.gateway, "/v1/chat/completions", { model: "m", messages })).status).toBe(200);
    const episode = await ended(world);
    expect(episode.messages[0]).toEqual({ role: "user", content: "What is this?\n[image_url]" });
    await world.close();
  });

  test("takes the model that a program names where none is set, and its price", async () => {
    const world = await openApiWorld({
      answer: (request) => Response.json(completion("ok", { url: request.url })),
      api: { model: undefined as never, prices: { small: { input: 1e6, output: 1e6 } } },
    });
    const messages = [{ role: "user", content: "Hi" }];
    for (const model of ["small", "large"]) await post(world.gateway, "/v1/chat/completions", { model, messages });
    expect(world.calls.map(({ body }) => body["model"])).toEqual(["small", "large"]);
    const costs = (await ended(world)).events.flatMap((event) =>
      event.type === "agent-reply" ? [event.usage.cost] : [],
    );
    expect(costs).toEqual([15, null]);
    await world.close();
  });

  test.each([
    ["several answers", { n: 2 }, "n is more than 1"],
    ["background", { background: true }, "background responses are not stored"],
  ])("is refused where it does not end with one answer: %s", async (_what, fields, message) => {
    const world = await openApiWorld();
    const body = { model: "m", input: "Hi", messages: [{ role: "user", content: "Hi" }], ...fields };
    const path = "background" in fields ? "/v1/responses" : "/v1/chat/completions";
    const answer = await post(world.gateway, path, body);
    expect([answer.status, answer.text]).toEqual([400, expect.stringContaining(message)]);
    expect(world.calls).toEqual([]);
    await world.close();
  });

  test("counts tokens where the API does, and records nothing of it", async () => {
    const world = await openApiWorld();
    const body = { model: "m", messages: [{ role: "user", content: "Hi" }] };
    const answer = await post(world.gateway, "/v1/messages/count_tokens", body);
    expect([answer.status, answer.json]).toMatchObject([200, { input_tokens: expect.any(Number) as number }]);
    expect(world.gateway.sessions).toEqual([]);
    await world.close();
    const without = await openApiWorld({ paths: ["/v1/chat/completions"] });
    expect((await post(without.gateway, "/v1/messages/count_tokens", body)).status).toBe(404);
    await without.close();
  });
});

function completion(content: string, more: object = {}): object {
  const usage = { prompt_tokens: 10, completion_tokens: 5 };
  return { choices: [{ message: { role: "assistant", content }, finish_reason: "stop" }], usage, ...more };
}

const chat = (world: ApiWorld, text = "Hi", stream = false) =>
  post(world.gateway, "/v1/chat/completions", { model: "m", stream, messages: [{ role: "user", content: text }] });

/** An error of an API that quotes the key. */
const failing = (status: number, headers: Record<string, string> = {}): Response =>
  Response.json({ error: { message: `no: ${realKey}`, type: "x" } }, { status, headers });

describe("an API that fails", () => {
  test.each([
    [401, 1, 401, "unauthorized"],
    [402, 1, 500, "quota-exceeded"],
    [403, 1, 401, "unauthorized"],
    [429, 3, 429, "rate-limited"],
    [500, 3, 503, "server-error"],
    [502, 3, 503, "server-error"],
    [503, 3, 503, "server-error"],
    [529, 3, 503, "server-error"],
  ])("with %i is called %i times, told as %i, and is the fault of the episode", async (status, times, told, code) => {
    for (const stream of [false, true]) {
      const world = await openApiWorld({ answer: () => failing(status) });
      const answer = await chat(world, "Hi", stream);
      expect([answer.status, world.calls.length]).toEqual([told, times]);
      expect(answer.text).not.toContain(realKey);
      // The gateway already retried: clients must not, and a repeated request is tried once.
      expect(answer.headers).toMatchObject({ "x-should-retry": "false" });
      expect([(await chat(world, "Hi", stream)).status, world.calls.length]).toEqual([told, times + 1]);
      // The episode fails, no matter how the program reacts.
      const episode = await ended(world);
      expect(episode).toMatchObject({ outcome: "failed", reward: null, failure: { boundary: "engine", code } });
      expect(JSON.stringify(episode.failure)).not.toContain(realKey);
      await world.close();
    }
  });

  test("and then does not is tried again, and the attempts are recorded", async () => {
    for (const stream of [false, true]) {
      const world = await openApiWorld({ answer: (_, at) => (at < 2 ? failing(503) : null) });
      expect((await chat(world, "Hi", stream)).status).toBe(200);
      const episode = await ended(world);
      const [reply] = episode.events.filter((event) => event.type === "agent-reply");
      expect(reply).toMatchObject({ attempts: [{}, {}], usage: { modelCalls: 3 } });
      expect(episode.reward).toBe(1);
      await world.close();
    }
  });

  test("is made up for by the same conversation alone", async () => {
    const world = await openApiWorld({ answer: (_, at) => (at < 1 ? failing(401) : null) });
    expect((await chat(world, "one")).status).toBe(401);
    expect((await chat(world, "two")).status).toBe(200);
    const lost = await ended(world);
    expect(lost).toMatchObject({ reward: null, failure: { boundary: "engine", code: "unauthorized" } });
    await world.close();
    const again = await openApiWorld({ answer: (_, at) => (at < 1 ? failing(401) : null) });
    for (const status of [401, 200]) expect((await chat(again, "one")).status).toBe(status);
    const episode = await ended(again);
    const [reply] = episode.events.filter((event) => event.type === "agent-reply");
    expect([episode.reward, reply?.attempts.length]).toEqual([1, 1]);
    await again.close();
  });

  test("refuses what a program did wrong in its own words", async () => {
    const body = { error: { message: `bad tool (${realKey})`, type: "invalid_request_error", code: "x" } };
    const world = await openApiWorld({ answer: () => Response.json(body, { status: 400 }) });
    const answer = await chat(world);
    expect([answer.status, answer.json]).toEqual([400, { error: { ...body.error, message: "bad tool (***)" } }]);
    expect(await ended(world)).toMatchObject({ reward: null, failure: { code: "bad-request" } });
    await world.close();
  });

  test("for a context that is too long reaches a limit, and no fault", async () => {
    const error = { message: "maximum context length is 8", code: "context_length_exceeded" };
    const world = await openApiWorld({ answer: () => Response.json({ error }, { status: 400 }) });
    expect((await chat(world)).text).toContain("context_length_exceeded");
    expect(await ended(world)).toMatchObject({ reward: 1, failure: null });
    await world.close();
  });

  test.each([
    ["no JSON", () => new Response("<html>", { status: 200 })],
    ["no completion", () => Response.json({ choices: [] })],
    ["an error in a 200", () => Response.json({ error: { code: 429, message: "slow down" } })],
  ])("by answering %s is called again", async (_what, answer) => {
    const world = await openApiWorld({ answer: (_, at) => (at < 2 ? answer() : null) });
    expect((await chat(world)).status).toBe(200);
    expect(world.calls).toHaveLength(3);
    await world.close();
  });

  test("by silence runs into its deadline", async () => {
    for (const stream of [false, true]) {
      const world = await openApiWorld({
        answer: () => new Promise<Response>(() => undefined),
        api: { timeoutMs: 30, retry: { maxAttempts: 2, maxElapsedMs: 1000, baseDelayMs: 1, maxDelayMs: 1 } },
      });
      expect((await chat(world, "Hi", stream)).status).toBe(503);
      expect(await ended(world)).toMatchObject({ failure: { boundary: "engine", code: "timeout" } });
      await world.close();
    }
  });
});

describe("a stream that breaks", () => {
  const chunk = (content: string): string =>
    `data: {"choices": [{"index": 0, "delta": {"content": "${content}"}}]}\n\n`;
  const stream = (...parts: readonly string[]): Response =>
    new Response(new Blob([...parts]).stream(), { headers: { "content-type": "text/event-stream" } });

  test.each([
    ["ends early", [chunk("A"), chunk("B")], "ended before its end"],
    ["ends before it begins", [": wait\n\n"], "ended before its end"],
    ["says that it failed", [chunk("A"), 'data: {"error": {"message": "overloaded"}}\n\n'], "overloaded"],
  ])("and %s is told as the dialect does, and is the fault of the episode", async (_what, parts, reason) => {
    const world = await openApiWorld({ answer: () => stream(...parts) });
    const { status, text } = await chat(world, "Hi", true);
    expect([status, world.calls.length]).toEqual([200, 1]);
    expect(eventsOf(text).at(-1)).toMatchObject({ error: { message: expect.stringContaining(reason) as string } });
    expect(await ended(world)).toMatchObject({ reward: null, failure: { boundary: "engine", code: "server-error" } });
    await world.close();
  });

  test("is whole without its last event", async () => {
    const last = 'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}';
    const world = await openApiWorld({ answer: () => stream(chunk("A"), chunk("B"), last) });
    expect((await chat(world, "Hi", true)).status).toBe(200);
    const episode = await ended(world);
    expect([episode.reward, episode.messages.at(-1)]).toMatchObject([1, { content: "AB" }]);
    await world.close();
  });

  test("because its program goes away is recorded as far as it came", async () => {
    let isCancelled = false;
    const body = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(new TextEncoder().encode(chunk("A"))),
      cancel: () => void (isCancelled = true),
    });
    const world = await openApiWorld({
      answer: () => new Response(body, { headers: { "content-type": "text/event-stream" } }),
    });
    const headers = { "content-type": "application/json", authorization: "Bearer s1" };
    const sent = JSON.stringify({ model: "m", stream: true, messages: [{ role: "user", content: "Hi" }] });
    const answer = await world.gateway.handle({
      method: "POST",
      url: "/v1/chat/completions",
      headers,
      body: Buffer.from(sent),
    });
    if (typeof answer.body === "string") throw new Error(answer.body);
    let read = 0;
    for await (const _ of answer.body) if (++read === 3) break;
    expect(world.gateway.sessions[0]).toMatchObject({ running: 0, turns: 1 });
    const episode = await ended(world);
    expect(isCancelled).toBe(true);
    const [exchange] = exchangesOf(episode);
    expect(exchange?.action).toMatchObject({ content: "AAA", isTerminated: false });
    expect(episode.events).toContainEqual({ type: "undelivered", turns: [0] });
    await world.close();
  });
});

test("no text that a program or a reader gets holds the key of the API", async () => {
  const said = `the key is ${realKey}`;
  const pieces = [`data: {"choices": [{"index": 0, "delta": {"content": "${said}"}, "finish_reason": "stop"}]}\n\n`];
  const streamed = (): Response =>
    new Response(new Blob(pieces).stream(), { headers: { "content-type": "text/event-stream" } });
  const world = await openApiWorld({
    answer: (_, at) => (at % 2 === 0 ? Response.json(completion(said)) : streamed()),
  });
  for (const stream of [false, true]) {
    const { status, text } = await chat(world, "Hi", stream);
    expect([status, text]).toEqual([200, expect.stringContaining("the key is ***")]);
    expect(text).not.toContain(realKey);
  }
  await ended(world);
  await world.close();
  for (const file of ["episodes.jsonl", "groups.jsonl"]) {
    expect(await readFile(join(world.folder, file), "utf8")).not.toContain(realKey);
  }
});

describe("a session", () => {
  test("has limits of turns and tokens as any other", async () => {
    for (const [limits, code] of [
      [{ maxTurns: 1 }, "1 turns"],
      [{ maxSampledTokens: 1 }, "1 tokens"],
    ] as const) {
      const world = await openApiWorld({ gateway: { episode: { limits } } });
      expect((await chat(world, "one")).status).toBe(200);
      const refused = await chat(world, "two");
      expect([refused.status, refused.text]).toEqual([400, expect.stringContaining(code)]);
      await world.close();
    }
  });

  test("is taken up by the next process, and its conversation with it", async () => {
    const first = await openApiWorld({ policy });
    const client = chatClient();
    expect(client.take(await post(first.gateway, client.path, client.body(false)), false)).toBe(true);
    const second = await first.restart();
    for (;;) if (!client.take(await post(second.gateway, client.path, client.body(false)), false)) break;
    expectConversation(await ended(second));
    await second.close();
    const stored: Episode[] = [];
    for await (const episode of openRunFolder(second.folder).episodes()) stored.push(episode);
    expectConversation(stored[0]!);
  });

  test("cancels its calls when it ends, and takes no more", async () => {
    const world = await openApiWorld({ answer: () => new Promise<Response>(() => undefined) });
    const waiting = chat(world);
    while (world.calls.length === 0) await new Promise((done) => setTimeout(done, 1));
    await world.gateway.end("s1");
    for (const { status, text } of [await waiting, await chat(world)]) {
      expect([status, text]).toEqual([400, expect.stringContaining("has ended")]);
    }
    await world.close();
  });

  test("keeps conversations beside one another apart", async () => {
    const world = await openApiWorld({ policy: (prompt) => (prompt.includes("one") ? "1" : "2") });
    await Promise.all([chat(world, "one"), chat(world, "two")]);
    const exchanges = exchangesOf(await ended(world));
    expect(exchanges.map(({ basis }) => basis)).toEqual([null, null]);
    expect(new Set(exchanges.map(({ action }) => action.content))).toEqual(new Set(["1", "2"]));
    await world.close();
  });
});
