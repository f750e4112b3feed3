import { describe, expect, test } from "vitest";
import { AttributedError } from "../core/index.ts";
import { deriveSeed } from "../lib/random.ts";
import { episodeSamples } from "../rollout/index.ts";
import { openRunFolder } from "../store/index.ts";
import {
  chatClient,
  chatMessage,
  type Client,
  messagesClient,
  responsesClient,
  weather,
} from "./clients.test-helper.ts";
import type { GatewayOptions } from "./index.ts";
import { eventsOf, openWorld, post, recordViolations, tokenizer, type World } from "./gateway-world.test-helper.ts";

const call = (city: string): string =>
  `<tool_call>\n{"name": "get_weather", "arguments": {"city": "${city}"}}\n</tool_call>`;

/** Thinks, looks up two cities, then reports the results. */
function policy(prompt: string): string {
  const results = prompt.split("<tool_response>").length - 1;
  const first = prompt.includes("<tools>") && results < 2;
  return first ? `Let me look.\n${call(["Rome", "Oslo"][results]!)}` : "Sunny in both.";
}

async function converse(world: World, client: Client, stream: boolean, key = "s1"): Promise<number> {
  for (let turns = 1; ; turns++) {
    const answer = await post(world.gateway, client.path, client.body(stream), { key });
    expect(answer.status, answer.text).toBe(200);
    if (!client.take(answer, stream)) return turns;
  }
}

const clients: readonly (readonly [string, () => Client])[] = [
  ["chat", chatClient],
  ["messages", messagesClient],
  ["responses, items echoed", () => responsesClient({ refers: "items" })],
  ["responses, items by reference", () => responsesClient({ refers: "references" })],
  ["responses, continued by id", () => responsesClient({ refers: "previous" })],
];

type Wire = Readonly<Record<string, unknown>>;

describe.each(clients)("a conversation over %s", (_name, client) => {
  test.each([false, true])("is one append-only trajectory, streamed: %s", async (stream) => {
    const world = await openWorld(policy);
    expect(await converse(world, client(), stream)).toBe(3);
    const { counters } = world.gateway.sessions[0]!;
    expect(counters).toMatchObject({ calls: 3, extended: 2, branched: {}, reencoded: 0 });
    await world.gateway.reward("s1", { reward: 1, metrics: {}, log: "", info: new Map() });
    const episode = await world.gateway.end("s1");
    expect(recordViolations(episode, world.sampled)).toEqual([]);
    expect(episodeSamples(episode).samples).toHaveLength(1);
    expect(episode).toMatchObject({ reward: 1, outcome: "completed", stopReason: "session_ended" });
    await world.close();
  });
});

describe("rewards of turns", () => {
  test("are one for each turn so far and add up; others are refused", async () => {
    const world = await openWorld(policy, { token: "admin" });
    const { gateway } = world;
    const admin = { key: "admin" };
    const { id, key } = (await post(gateway, "/v1/sessions", {}, admin)).json as { id: string; key: string };
    expect(await converse(world, chatClient(), false, key)).toBe(3);
    const reward = async (body: Wire) => post(gateway, `/v1/sessions/${id}/reward`, body, admin);
    for (const [turnRewards, message] of [
      [[1], "turnRewards has 1 entries, the trajectory has 3 turns"],
      [[0.5, 0.25, null], "turnRewards add up to 0.75, the reward is 1"],
    ] as const) {
      const refused = await reward({ reward: 1, turn_rewards: turnRewards });
      expect(refused.status).toBe(400);
      expect(refused.text).toContain(message);
    }
    expect((await reward({ reward: 1, turn_rewards: [0.25, null, 0.75] })).status).toBe(200);
    // Rewards of turns would be lost without the reward that they add up to.
    const lost = await post(gateway, `/v1/sessions/${id}/end`, { turn_rewards: [1] }, admin);
    expect([lost.status, lost.json]).toMatchObject([400, { error: { param: "reward" } }]);
    expect((await post(gateway, `/v1/sessions/${id}/end`, {}, admin)).status).toBe(200);
    await world.close();
    const grades = [];
    for await (const { grade } of openRunFolder(world.folder).episodes()) grades.push(grade);
    expect(grades).toMatchObject([{ reward: 1, turnRewards: [0.25, null, 0.75] }]);
  });

  test("given before the last turn say nothing of it", async () => {
    const world = await openWorld(policy);
    const client = chatClient();
    const ask = async () => post(world.gateway, client.path, client.body(false), { key: "s1" });
    client.take(await ask(), false);
    const grade = { reward: 0.25, metrics: {}, log: "", info: new Map(), turnRewards: [0.25] };
    await world.gateway.reward("s1", grade);
    await ask();
    const episode = await world.gateway.end("s1");
    expect(episode.trajectory.turns).toHaveLength(2);
    expect(episode.grade?.turnRewards).toEqual([0.25, null]);
    await world.close();
  });
});

describe("a history", () => {
  const ask = (world: World, messages: readonly unknown[], more: object = {}) =>
    post(world.gateway, "/v1/chat/completions", { model: "m", messages, ...more });
  const user = (content: string) => ({ role: "user", content });
  const assistant = (content: string) => ({ role: "assistant", content });

  test("that the client edited begins a branch from what is left of it", async () => {
    const world = await openWorld((_prompt, at) => `answer ${at}`);
    await ask(world, [user("a")]);
    await ask(world, [user("a"), assistant("answer 0"), user("b")]);
    await ask(world, [user("a"), assistant("answer 0"), user("b"), assistant("edited"), user("c")]);
    const [session] = world.gateway.sessions;
    expect(session!.counters.branched).toEqual({ "history-edited": 1 });
    await world.gateway.reward("s1", { reward: 1, metrics: {}, log: "", info: new Map() });
    const episode = await world.gateway.end("s1");
    expect(episode.trajectory.turns.map(({ parent }) => parent)).toEqual([null, 0, 0]);
    expect(recordViolations(episode, world.sampled)).toEqual([]);
    await world.close();
  });

  test("of sub-agents is a forest; a summary is linked to the conversation that begins from it", async () => {
    const summary =
      "A summary of what was said so far, long enough that nobody says it by accident, in this very form.";
    const world = await openWorld((prompt) => (prompt.includes("summarise") ? summary : "fine"));
    await ask(world, [user("a")]);
    await ask(world, [{ role: "system", content: "you are another" }, user("sub")]);
    await ask(world, [user("a"), assistant("fine"), user("summarise")]);
    await ask(world, [user(`Continue from: ${summary}`), user("next")]);
    const [session] = world.gateway.sessions;
    expect(session!.counters.branched).toEqual({ "another-conversation": 1, compaction: 1 });
    await world.gateway.reward("s1", { reward: 1, metrics: {}, log: "", info: new Map() });
    const episode = await world.gateway.end("s1");
    expect(recordViolations(episode, world.sampled)).toEqual([]);
    expect(episode.events.flatMap((event) => (event.type === "exchange" ? [event.continues] : []))).toEqual([
      null,
      null,
      null,
      2,
    ]);
    expect(episodeSamples(episode).samples).toHaveLength(3);
    await world.close();
  });

  test("with other tools begins a branch; one that is requested again is sampled again beside the first", async () => {
    const world = await openWorld((_prompt, at) => `answer ${at}`);
    await ask(world, [user("a")]);
    await ask(world, [user("a"), assistant("answer 0"), user("b")], {
      tools: [{ type: "function", function: weather }],
    });
    const again = [user("a"), assistant("answer 0"), user("b")];
    await ask(world, again);
    await ask(world, again);
    expect(world.gateway.sessions[0]!.counters).toMatchObject({
      replayed: 0,
      branched: { "tools-changed": 1, "sampled-again": 1 },
    });
    await world.close();
  });

  test("in which results came back in another order is the same", async () => {
    const world = await openWorld((prompt) =>
      prompt.includes("tool_response") ? "done" : `${call("Rome")}\n${call("Oslo")}`,
    );
    const tools = [{ type: "function", function: weather }];
    const first = await ask(world, [user("a")], { tools });
    const message = chatMessage(first, false);
    expect(message.tool_calls).toHaveLength(2);
    const [one, two] = message.tool_calls!;
    const result = (of: { readonly id: string }, content: string) => ({ role: "tool", tool_call_id: of.id, content });
    await ask(world, [user("a"), { role: "assistant", ...message }, result(two!, "cold"), result(one!, "warm")], {
      tools,
    });
    const prompt = world.sampled[1]!.prompt;
    expect(world.gateway.sessions[0]!.counters).toMatchObject({ extended: 1, branched: {} });
    const text = tokenizer.decode(prompt);
    expect(text.indexOf("warm")).toBeLessThan(text.indexOf("cold"));
    await world.close();
  });
});

describe("a request", () => {
  const body = { model: "m", messages: [{ role: "user", content: "a" }] };

  test("that is repeated because its client was cut off is answered from the record, sampled once", async () => {
    const world = await openWorld((_prompt, at) => `answer ${at}`);
    const lost = await post(world.gateway, "/v1/chat/completions", body, { delivers: false });
    const again = await post(world.gateway, "/v1/chat/completions", body);
    expect(again.json["choices"]).toEqual(lost.json["choices"]);
    expect(world.sampled).toHaveLength(1);
    // A legitimate repetition, sent after the answer was delivered.
    await post(world.gateway, "/v1/chat/completions", body);
    expect(world.sampled).toHaveLength(2);
    await world.close();
  });

  test("finds its session after a restart, and is answered from the record", async () => {
    const before = await openWorld((_prompt, at) => `answer ${at}`);
    await post(before.gateway, "/v1/chat/completions", body);
    const next = {
      model: "m",
      messages: [...body.messages, { role: "assistant", content: "answer 0" }, { role: "user", content: "b" }],
    };
    await post(before.gateway, "/v1/chat/completions", next, { delivers: false });
    const after = await before.restart();
    await post(after.gateway, "/v1/chat/completions", next);
    expect(after.sampled).toHaveLength(0);
    const messages = [...next.messages, { role: "assistant", content: "answer 1" }, { role: "user", content: "c" }];
    expect((await post(after.gateway, "/v1/chat/completions", { model: "m", messages })).status).toBe(200);
    expect(after.gateway.sessions[0]!.counters).toMatchObject({ extended: 1, branched: {} });
    await after.gateway.reward("s1", { reward: 0.5, metrics: {}, log: "", info: new Map() });
    const episode = await after.gateway.end("s1");
    expect(recordViolations(episode, [...before.sampled, ...after.sampled])).toEqual([]);
    expect(episode.trajectory.turns.map(({ parent }) => parent)).toEqual([null, 0, 1]);
    const ended = await post(after.gateway, "/v1/messages", { ...body, max_tokens: 5 });
    expect([ended.status, (ended.json["error"] as Wire)["type"]]).toEqual([400, "invalid_request_error"]);
    const last = await after.restart();
    const still = await post(last.gateway, "/v1/chat/completions", body);
    expect([still.status, (still.json["error"] as Wire)["code"]]).toEqual([400, "session_ended"]);
    await last.close();
  });

  test("that the gateway cannot serve is refused in the shape of its dialect", async () => {
    const world = await openWorld(() => "fine", {
      episode: { limits: { maxContextTokens: 40 } },
      clientSampling: "refuse",
    });
    const refused = async (path: string, more: object, messages: unknown = body.messages) =>
      (await post(world.gateway, path, { model: "m", messages, input: "x", max_tokens: 5, ...more })).json[
        "error"
      ] as Wire;
    const chat = "/v1/chat/completions";
    expect(await refused(chat, { n: 2 })).toMatchObject({ code: "unsupported", param: "n" });
    expect(await refused(chat, { tool_choice: "required" })).toMatchObject({ param: "tool_choice" });
    expect(await refused(chat, { response_format: { type: "json_object" } })).toMatchObject({
      param: "response_format",
    });
    expect(await refused(chat, { temperature: 0 })).toMatchObject({ code: "unsupported", param: "temperature" });
    expect(await refused(chat, {}, [{ role: "user", content: [{ type: "image_url", image_url: {} }] }])).toMatchObject({
      param: "messages.0.content",
    });
    expect(
      await refused(chat, {}, [{ role: "user", content: "x".repeat(9).split("").join(" ").repeat(9) }]),
    ).toMatchObject({
      code: "context_length_exceeded",
    });
    const long = [{ role: "user", content: "a b c d e f ".repeat(9) }];
    expect((await refused("/v1/messages", {}, long))["message"]).toMatch(
      /^prompt is too long: \d+ tokens > 40 maximum$/,
    );
    expect(await refused("/v1/responses", { previous_response_id: "resp_1" })).toMatchObject({
      param: "previous_response_id",
    });
    expect(world.sampled).toHaveLength(0);
    await world.close();
  });
});

describe("a sampling seed", () => {
  const seeds = async (options: GatewayOptions, session: object, bodies: readonly object[]): Promise<unknown[]> => {
    const world = await openWorld((_prompt, at) => `answer ${at}`, options);
    const { key } = await world.gateway.open(session);
    for (const more of bodies) {
      const body = { model: "m", messages: [{ role: "user", content: "a" }], ...more };
      expect((await post(world.gateway, "/v1/chat/completions", body, { key })).status).toBe(200);
    }
    await world.close();
    return world.sampled.map(({ seed }) => seed);
  };

  test("of a call is that of the built-in loop's turn, where turns are seeded", async () => {
    const episode = { seedTurns: true };
    expect(await seeds({ episode }, { seed: 7 }, [{}, {}])).toEqual([
      deriveSeed(7, "turn", 0),
      deriveSeed(7, "turn", 1),
    ]);
    expect(await seeds({}, { seed: 7 }, [{}])).toEqual([null]);
  });

  test("that somebody states is used: of the session for every call another, of a client that is obeyed as it is", async () => {
    const [first, second] = await seeds({ episode: { seedTurns: true } }, { sampling: { seed: 3 } }, [{}, {}]);
    expect(first).not.toBe(second);
    const obeying: GatewayOptions = { clientSampling: "obey", episode: { seedTurns: true } };
    expect(await seeds(obeying, { seed: 7 }, [{ seed: 11 }, {}])).toEqual([11, deriveSeed(7, "turn", 1)]);
    expect(await seeds({}, { seed: 7 }, [{ seed: 11 }])).toEqual([null]);
  });
});

describe("a streamed answer", () => {
  const body = { model: "m", stream: true, messages: [{ role: "user", content: "a" }] };
  const tools = [{ type: "function", function: weather }];
  const text = `${"It takes a while to say all of this, word by word. ".repeat(4)}\n${call("Rome")}`;

  /** Emits tokens in pieces; fails after `failsAfter` of them. */
  async function slowWorld(failsAfter = Infinity): Promise<World> {
    const world = await openWorld(() => text);
    const sample = world.engine.sample.bind(world.engine);
    let calls = 0;
    world.engine.sample = async (request, options) => {
      // The tokens are emitted slowly below instead of at once.
      const result = await sample(request);
      const isFirst = calls++ === 0;
      for (let at = 0; at < result.sampledTokens.length; at += 8) {
        options?.onTokens?.(result.sampledTokens.subarray(at, at + 8));
        await new Promise((resolve) => setTimeout(resolve, 30));
        if (!isFirst || at < failsAfter) continue;
        const fault = {
          boundary: "engine",
          code: "connection-lost",
          message: "gone",
          retryable: true,
          cause: null,
        } as const;
        throw new AttributedError(fault);
      }
      return result;
    };
    return world;
  }

  test.each(["/v1/chat/completions", "/v1/messages"])(
    "over %s comes in parts, and no part of a call is content",
    async (path) => {
      const world = await slowWorld();
      const own = path.includes("chat") ? tools : [{ name: "get_weather", input_schema: weather.parameters }];
      const { text: streamed } = await post(world.gateway, path, { ...body, max_tokens: 500, tools: own });
      const parts = [...streamed.matchAll(/"(?:content|text)":"([^"]+)"/g)].map(([, part]) => part!);
      expect(parts.length).toBeGreaterThan(3);
      expect(parts.join("")).toBe(text.slice(0, text.indexOf("\n<tool_call>")).trim());
      expect(streamed).toContain("get_weather");
      expect(streamed).not.toContain("tool_call>");
      await world.close();
    },
  );

  test("that the engine breaks off ends with an error; asked for again, it is sampled anew and trained once", async () => {
    const world = await slowWorld(40);
    const broken = await post(world.gateway, "/v1/chat/completions", body);
    // The request is not at fault: clients retry it.
    expect(broken.text).toContain('"code":"overloaded"');
    expect(broken.text).not.toContain("[DONE]");
    const again = await post(world.gateway, "/v1/chat/completions", body);
    expect(again.text).toContain("[DONE]");
    const episode = await world.gateway.end("s1");
    expect(episode.trajectory.turns).toHaveLength(1);
    await world.close();
  });
});

test("token ids are completed as they are, and a prompt that extends the record continues it", async () => {
  const world = await openWorld((_prompt, at) => `answer ${at}`);
  const prompt = [...tokenizer.encode("hello there")];
  type Completion = { readonly choices: readonly [{ readonly token_ids: readonly number[] }]; readonly error?: Wire };
  const complete = async (ids: unknown, stream = false): Promise<Completion> => {
    const { json, text } = await post(world.gateway, "/v1/completions", { model: "m", prompt: ids, stream });
    return (stream ? eventsOf(text)[0] : json) as Completion;
  };
  const first = (await complete(prompt)).choices[0].token_ids;
  const next = [...prompt, ...first, ...tokenizer.encode("go on")];
  await complete(next, true);
  expect([...world.sampled[1]!.prompt]).toEqual(next);
  expect((await complete("text")).error).toMatchObject({ param: "prompt" });
  expect((await complete([4_000_000_000])).error).toMatchObject({ param: "prompt" });
  await world.gateway.reward("s1", { reward: 1, metrics: {}, log: "", info: new Map() });
  const episode = await world.gateway.end("s1");
  expect(recordViolations(episode, world.sampled)).toEqual([]);
  expect(episode.trajectory.turns.map(({ parent }) => parent)).toEqual([null, 0]);
  await world.close();
});

test.each([false, true])(
  "a client in the same process takes the gateway as its fetch, streamed: %s",
  async (stream) => {
    const world = await openWorld((_prompt, at) => `answer ${at}`);
    const send = async (): Promise<string | null> => {
      const body = JSON.stringify({ model: "m", stream, messages: [{ role: "user", content: "a" }] });
      const headers = { authorization: "Bearer s1", "content-type": "application/json" };
      const answer = await world.gateway.fetch("http://gateway/v1/chat/completions", { method: "POST", headers, body });
      expect(answer.status).toBe(200);
      const text = await answer.text();
      return chatMessage({ json: stream ? null : JSON.parse(text), text }, stream).content;
    };
    expect(await send()).toBe("answer 0");
    // The first answer was delivered, so this is a new turn.
    expect(await send()).toBe("answer 1");
    await world.close();
  },
);

describe("what a stopped process left", () => {
  const body = { model: "m", messages: [{ role: "user", content: "a" }] };
  const grade = { reward: 1, metrics: {}, log: "", info: new Map() };

  test("keeps its delivered turns, its grade and its group", async () => {
    const before = await openWorld((_prompt, at) => `answer ${at}`);
    await post(before.gateway, "/v1/chat/completions", body);
    await before.gateway.reward("s1", grade);
    const after = await before.restart();
    const episode = await after.gateway.end("s1");
    expect([episode.reward, episodeSamples(episode).dropped]).toEqual([1, []]);
    await after.close();
  });

  test("is in the groups that a later process decides, whichever of them ended before", async () => {
    const before = await openWorld((_prompt, at) => `answer ${at}`);
    const opening = { task: "t", groupSize: 2 };
    const [first, second] = [await before.gateway.open(opening), await before.gateway.open(opening)];
    for (const { key } of [first, second]) await post(before.gateway, "/v1/chat/completions", body, { key });
    await before.gateway.reward(first.id, grade);
    await before.gateway.end(first.id);
    const after = await before.restart();
    await after.gateway.reward(second.id, { ...grade, reward: 0 });
    await after.gateway.end(second.id);
    const groups = [];
    for await (const group of openRunFolder(after.folder).groups()) groups.push(group);
    expect(groups).toMatchObject([{ groupId: "t", rewards: [1, 0], episodeIds: [first.id, second.id] }]);
    await after.close();
  });

  test("decides the groups whose sessions have all ended", async () => {
    const before = await openWorld(() => "fine");
    await post(before.gateway, "/v1/chat/completions", body);
    await before.gateway.reward("s1", grade);
    before.store.appendGroup = () => new Promise(() => undefined);
    void before.gateway.end("s1");
    await new Promise((resolve) => setTimeout(resolve, 50));
    const after = await before.restart();
    const groups = [];
    for await (const group of openRunFolder(after.folder).groups()) groups.push(group.groupId);
    expect(groups).toEqual(["s1"]);
    await after.close();
  });

  test("begins a session again under a new key: the old one samples nothing more, and nothing of before is trained", async () => {
    const before = await openWorld(() => "fine", { token: "admin" });
    const { id, key } = await before.gateway.open();
    await post(before.gateway, "/v1/chat/completions", body, { key });
    const after = await before.restart();
    const next = await after.gateway.reopen(id);
    expect((await post(after.gateway, "/v1/chat/completions", body, { key })).status).toBe(400);
    expect((await post(after.gateway, "/v1/chat/completions", body, { key: next })).status).toBe(200);
    const last = await after.restart();
    expect((await post(last.gateway, "/v1/chat/completions", body, { key })).status).toBe(400);
    await last.gateway.reward(id, grade);
    const episode = await last.gateway.end(id);
    expect(episodeSamples(episode)).toMatchObject({ samples: [{}], dropped: [{ turn: 0, reason: "discarded-turn" }] });
    await last.close();
  });
});

test("histories that only look alike are told apart", async () => {
  const big = '{"city": 12345678901234567890}';
  const world = await openWorld((prompt) =>
    prompt.includes("tool_response")
      ? "done"
      : `<tool_call>\n{"name": "get_weather", "arguments": ${big}}\n</tool_call>`,
  );
  const tools = [{ type: "function", function: weather }];
  const messages = [{ role: "user", content: "a" }];
  const first = chatMessage(await post(world.gateway, "/v1/chat/completions", { model: "m", messages, tools }), false);
  const edited = first.tool_calls!.map((one) => ({
    ...one,
    function: { ...one.function, arguments: big.replace("890", "891") },
  }));
  const result = { role: "tool", tool_call_id: first.tool_calls![0]!.id, content: "sunny" };
  const changed = [...messages, { role: "assistant", content: null, tool_calls: edited }, result];
  await post(world.gateway, "/v1/chat/completions", { model: "m", messages: changed, tools });
  expect(world.gateway.sessions[0]!.counters.extended).toBe(0);
  // A number that JavaScript would change is not sent as an object.
  const own = [{ name: "get_weather", input_schema: weather.parameters }];
  const answer = await post(
    world.gateway,
    "/v1/messages",
    { model: "m", max_tokens: 50, messages, tools: own },
    { key: "s2" },
  );
  expect(answer.text).toContain("12345678901234567890");
  await world.close();
});

test("an id is opened once, and a group has one task", async () => {
  const world = await openWorld(() => "fine", { maxSessions: 2 });
  const open = (body: object) => post(world.gateway, "/v1/sessions", body, { key: null });
  const twice = await Promise.all([open({ id: "x" }), open({ id: "x" })]);
  expect(twice.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 400]);
  await open({ task: "a", group: "g", group_size: 2 });
  expect((await open({ id: "y" })).status).toBe(429);
  await world.gateway.end("x");
  expect((await open({ task: "b", group: "g" })).json["error"]).toMatchObject({ param: "group" });
  expect((await post(world.gateway, "//", {})).status).toBe(404);
  expect((await post(world.gateway, "/s/%zz/v1/messages", {})).status).toBe(400);
  await world.close();
});

describe("sessions", () => {
  test("are opened, rewarded and ended by the token alone; their keys open nothing else", async () => {
    const world = await openWorld(() => "fine", { token: "admin" });
    const { gateway } = world;
    const admin = { key: "admin" };
    expect((await post(gateway, "/v1/sessions", {}, { key: null })).status).toBe(401);
    const opened = await post(
      gateway,
      "/v1/sessions",
      { task: "t", group_size: 2, tags: { run: 1 }, sampling: { temperature: 0.5 } },
      admin,
    );
    const { id, key } = opened.json as { id: string; key: string };
    expect((await post(gateway, `/v1/sessions/${id}/end`, {}, { key })).status).toBe(401);
    const body = { model: "m", messages: [{ role: "user", content: "a" }] };
    expect((await post(gateway, "/v1/chat/completions", body, { key: "another" })).status).toBe(401);
    expect((await post(gateway, "/v1/chat/completions", body, admin)).status).toBe(401);
    expect((await post(gateway, `/s/${key}/v1/chat/completions`, body, { key: null })).status).toBe(200);
    expect(
      (await post(gateway, `/v1/sessions/${id}/reward`, { reward: 0.25, turn_rewards: [0.25] }, admin)).json["reward"],
    ).toBe(0.25);
    expect((await post(gateway, `/v1/sessions/${id}/end`, {}, admin)).json).toMatchObject({
      outcome: "completed",
      reward: 0.25,
    });
    const other = await post(gateway, "/v1/sessions", { task: "t", group_size: 2 }, admin);
    expect(other.json["group"]).toBe(opened.json["group"]);
    await post(gateway, `/v1/sessions/${String(other.json["id"])}/end`, { reward: 1 }, admin);
    const groups = [];
    for await (const group of openRunFolder(world.folder).groups()) groups.push(group);
    expect(groups).toMatchObject([{ groupId: "t", decision: "kept", rewards: [0.25, 1] }]);
    // A third session of the task begins its next group.
    expect((await post(gateway, "/v1/sessions", { task: "t" }, admin)).json["group"]).toBe("t@2");
    await world.close();
  });

  test("count the tokens of a request exactly, and sample nothing for it", async () => {
    const world = await openWorld(policy);
    const body = { model: "m", messages: [{ role: "user", content: "weather?" }] };
    const counted = await post(world.gateway, "/v1/messages/count_tokens", body);
    expect(world.sampled).toHaveLength(0);
    expect(world.gateway.sessions).toEqual([]);
    await post(world.gateway, "/v1/messages", { ...body, max_tokens: 50 });
    expect(counted.json["input_tokens"]).toBe(world.sampled[0]!.prompt.length);
    await world.close();
  });
});
