import { inspect } from "node:util";
import { describe, expect, it } from "vitest";
import { AttributedError, ConfigurationError, type UserSide } from "../core/index.ts";
import { createManualClock } from "../lib/clock.test-helper.ts";
import { answering, bodyOf, fakeServer, says } from "../chat-models/fake-chat.test-helper.ts";
import { llmUser, type ModelUserOptions } from "./model-user.ts";
import { testTask } from "./test-task.test-helper.ts";

const url = "http://127.0.0.1:8000";
const key = "sk-open-sesame-123";

function userOf(options: ModelUserOptions, id = "a") {
  return llmUser({ model: "m", url, random: () => 0, ...options }).create(testTask({ id }), { seed: 1 });
}

const actingSide: UserSide = {
  prompt: "You are the customer.",
  tools: [],
  history: [{ role: "user", content: "Hi!" }],
  act: () => ({ results: [], endsEpisode: false }),
};

async function failureOf(call: Promise<unknown>): Promise<AttributedError> {
  const error = await call.then(
    () => new Error("The call did not fail."),
    (reason: unknown) => reason,
  );
  if (!(error instanceof AttributedError)) throw error;
  expect(error.failure.boundary).toBe("user");
  return error;
}

describe("llmUser()", () => {
  it("shows the model its instruction and a greeting, then the conversation with the roles turned round", async () => {
    const http = answering(says("hello"), says("my id is x"));
    const user = userOf({ http, model: "qwen", extraBody: { temperature: 0.5 } });
    expect((await user.open()).text).toBe("hello");
    expect((await user.reply("Who are you?")).text).toBe("my id is x");
    expect(http.requests[0]).toMatchObject({ base: { origin: url, path: "/v1" }, path: "/chat/completions" });
    const { messages, ...rest } = bodyOf(http.requests[1]);
    expect(rest).toEqual({ model: "qwen", temperature: 0.5 });
    expect(messages.map(({ role }) => role)).toEqual(["system", "user", "assistant", "user"]);
    expect(messages[0]?.content).toContain("Cancel my order.");
    expect(messages.slice(2)).toEqual([
      { role: "assistant", content: "hello" },
      { role: "user", content: "Who are you?" },
    ]);
  });

  it("hangs up at the stop marker and keeps the text", async () => {
    const user = userOf({ http: answering(says("hello"), says("Thank you! ###STOP###")) });
    await user.open();
    expect(await user.reply("Done.")).toMatchObject({ type: "hang-up", text: "Thank you! ###STOP###" });
  });

  it("is at fault if it hangs up before the agent has spoken, except as upstream", async () => {
    const quoting = () => answering(says("I will say ###STOP### at the end."), says("hello"));
    await expect(userOf({ http: quoting() }).open()).rejects.toMatchObject({
      failure: { boundary: "user", code: "early-hang-up", retryable: true },
    });
    const upstream = userOf({ http: answering(says("x"), says("###STOP###")), compat: "upstream" });
    expect(await upstream.open()).toMatchObject({ type: "hang-up" });
  });

  it("takes prompts as values", async () => {
    const http = answering(says("hello"));
    await userOf({ http, prompts: { system: (instruction) => `<${instruction}>`, greeting: "Hi!" } }).open();
    expect(bodyOf(http.requests[0]).messages.map(({ content }) => content)).toEqual(["<Cancel my order.>", "Hi!"]);
  });

  it("sums usage and cost over the calls of a line, failed ones included", async () => {
    const clock = createManualClock();
    const http = answering(
      { status: 500, body: "" },
      says("  "),
      says("hello", { prompt_tokens: 20, completion_tokens: 7 }),
    );
    const user = userOf({ http, clock, prices: { m: { input: 1e6, output: 1e7 } } });
    const opened = user.open();
    await clock.drain();
    expect((await opened).usage).toEqual({ modelCalls: 3, inputTokens: 30, outputTokens: 12, cost: 150 });
  });

  it("does not know the cost without a price or without usage", async () => {
    expect((await userOf({ http: answering(says("hello")) }).open()).usage).toMatchObject({
      cost: null,
      inputTokens: 10,
    });
    const silent = await userOf({ http: answering(says("hello", null)), model: "gpt-4o" }).open();
    expect(silent.usage).toEqual({ modelCalls: 1, inputTokens: 0, outputTokens: 0, cost: null });
  });

  it("keeps a model's thinking from the agent and from the conversation", async () => {
    const http = answering(says("<think>\nwho am I?\n</think>\n\nhello\n"), says("yes"));
    const user = userOf({ http });
    expect((await user.open()).text).toBe("hello");
    await user.reply("Sure?");
    expect(bodyOf(http.requests[1]).messages[2]?.content).toBe("hello");
  });

  it.each([
    ["opened in its prompt", "I could say ###STOP### now.\n</think>\n\nhello"],
    ["in the middle", "hel <think>say ###STOP###</think>"],
    ["never closed", "hello\n<think>or rather ###STOP###"],
    ["of another family", "[THINK]###STOP###[/THINK]hello"],
    [
      "of a channel",
      "<|channel|>analysis<|message|>###STOP###<|end|><|start|>assistant<|channel|>final<|message|>hello",
    ],
  ])("neither says nor obeys its reasoning: %s", async (_, reply) => {
    for (const side of [null, actingSide]) {
      const http = answering(says(reply));
      const line = await userOf({ http }).open({ side });
      expect(line).toMatchObject({ type: "utterance", text: reply.startsWith("hel ") ? "hel" : "hello" });
    }
  });

  it.each([null, actingSide])("asks again for a reply that is nothing but reasoning, with side %j", async (side) => {
    const clock = createManualClock();
    const options = { clock, model: "m", url };
    const http = answering(says("secret ###STOP### </think>"), says("<think>secret"), says("hello"));
    const asked = userOf({ ...options, http }).open({ side });
    await clock.drain();
    expect(await asked).toMatchObject({ type: "utterance", text: "hello", usage: { modelCalls: 3 } });
    const always = fakeServer(() => says("secret </thinking>"));
    const failing = failureOf(userOf({ ...options, http: always }).open({ side }));
    await clock.drain();
    expect((await failing).failure.code).toBe("empty-reply");
    expect(always.requests.length).toBe(3);
  });

  it("acts without saying what it thought beside its calls", async () => {
    const message = {
      content: "I must not tell.</think>",
      tool_calls: [{ id: "c", function: { name: "look", arguments: "{}" } }],
    };
    const http = answering({ body: { choices: [{ message, finish_reason: "stop" }] } });
    expect(await userOf({ http }).open({ side: actingSide })).toMatchObject({ type: "calls", text: "" });
  });

  it("refuses a task without an instruction and names users that need none", () => {
    const source = llmUser({ model: "m", url, http: answering() });
    expect(() => source.create(testTask({ instruction: null }), { seed: 1 })).toThrow(ConfigurationError);
    expect(() => source.create(testTask({ instruction: null }), { seed: 1 })).toThrow(
      '"agenda", "scripted" or "human"',
    );
  });

  it.each([
    [{ url }, "it has no model"],
    [{ model: "m" }, "it names no provider"],
    [{ model: "m", provider: "openai-compatible" }, "its server has no address"],
    [{ model: "m", url: "localhost:8000" }, "the scheme is missing"],
    [{ model: "m", url, apiKey: "sk-open-sesame-123 \u00fc" }, "a character that headers do not allow"],
    [{ model: "m", url, apiKeyVariable: "MISSING", variables: {} }, '"MISSING" is not set'],
  ] satisfies [ModelUserOptions, string][])("refuses %j before any call", (options, state) => {
    expect(() => llmUser(options)).toThrow(ConfigurationError);
    expect(() => llmUser(options)).toThrow(state);
    expect(() => llmUser(options)).not.toThrow(key);
  });

  it("refuses limits that allow nothing", () => {
    for (const limits of [{ timeoutMs: 0 }, { maxConcurrency: 0 }, { requestsPerMinute: 0 }, { maxReasks: -1 }]) {
      expect(() => llmUser({ model: "m", url, http: answering(), ...limits })).toThrow(ConfigurationError);
    }
  });
});

describe("llmUser() under faults", () => {
  it("waits as long as a 429 asks for, then goes on", async () => {
    const clock = createManualClock();
    const at: number[] = [];
    const http = fakeServer((_request, _options, index) => {
      at.push(clock.now());
      return index === 0 ? { status: 429, headers: { "retry-after": "7" }, body: "slow down" } : says("hello");
    });
    const opened = userOf({ http, clock }).open();
    await clock.drain();
    expect((await opened).text).toBe("hello");
    expect(at).toEqual([0, 7250]);
  });

  it("gives up in bounded time, with what the server said", async () => {
    const clock = createManualClock();
    const http = fakeServer(() => ({ status: 503, body: "overloaded" }));
    const failing = failureOf(
      userOf({
        http,
        clock,
        retry: { maxAttempts: 99, maxElapsedMs: 5000, baseDelayMs: 1000, maxDelayMs: 1000 },
      }).open(),
    );
    await clock.drain();
    expect((await failing).failure).toMatchObject({ code: "server-error", retryable: true, cause: "overloaded" });
    expect(http.requests.length).toBe(11);
  });

  it.each([
    [401, "", "unauthorized"],
    [400, '{"error":{"message":"maximum context length is 8192"}}', "context-length"],
    [400, '{"error":{"message":"unknown parameter"}}', "bad-request"],
    [404, "no such model", "bad-request"],
    [429, '{"error":{"code":"insufficient_quota"}}', "quota-exceeded"],
  ])("does not repeat a call that was answered %i %s", async (status, body, code) => {
    const http = answering({ status, body });
    const { failure } = await failureOf(userOf({ http }).open());
    expect(failure).toMatchObject({ code, retryable: false });
    expect(failure.message).toContain(`user model "m" at ${url}/v1/chat/completions: the server answered ${status}`);
  });

  it.each([
    ["no JSON", "<html>", "bad-reply"],
    ["no choices", { choices: [] }, "bad-reply"],
    ["an error with status 200", { error: { message: "try later" } }, "bad-reply"],
    ["a status in the body", { error: { code: 502, message: "bad gateway" } }, "server-error"],
    ["no words", says(null).body, "empty-reply"],
    ["only thinking", says("<think>hm").body, "empty-reply"],
  ])("asks again for %s, then fails by name", async (_name, body, code) => {
    const clock = createManualClock();
    const http = fakeServer(() => ({ body }));
    const failing = failureOf(
      userOf({ http, clock, retry: { maxAttempts: 3, maxElapsedMs: 1e6, baseDelayMs: 1, maxDelayMs: 1 } }).open(),
    );
    await clock.drain();
    expect((await failing).failure).toMatchObject({ code, retryable: true });
    expect(http.requests.length).toBe(3);
  });

  it("asks for an empty line twice more at most, whatever the retry policy allows", async () => {
    const clock = createManualClock();
    const http = fakeServer(() => says(""));
    const failing = failureOf(userOf({ http, clock }).open());
    await clock.drain();
    expect((await failing).failure.code).toBe("empty-reply");
    expect(http.requests.length).toBe(3);
  });

  it("ends a silent call at its deadline and tries again", async () => {
    const clock = createManualClock();
    const aborted: unknown[] = [];
    const http = fakeServer((_request, { signal }, index) => {
      if (index > 0) return says("hello");
      return new Promise((_, reject) =>
        signal?.addEventListener("abort", () => {
          aborted.push(clock.now());
          reject(signal.reason as Error);
        }),
      );
    });
    const opened = userOf({ http, clock, timeoutMs: 3000 }).open();
    await clock.drain();
    expect(await opened).toMatchObject({ text: "hello", usage: { modelCalls: 2 } });
    expect(aborted).toEqual([3000]);
  });

  it("ends at once when cancelled, in a call and between two", async () => {
    const clock = createManualClock();
    const controller = new AbortController();
    const silent = fakeServer(() => new Promise(() => {}));
    const calling = failureOf(userOf({ http: silent, clock }).open({ signal: controller.signal }));
    const failing = fakeServer(() => ({ status: 500, body: "" }));
    const waiting = failureOf(userOf({ http: failing, clock }).open({ signal: controller.signal }));
    await clock.advance(0);
    controller.abort(new Error("the run is over"));
    for (const { failure } of await Promise.all([calling, waiting])) {
      expect(failure).toMatchObject({ code: "cancelled", retryable: false, cause: "the run is over" });
    }
    await clock.advance(0);
    expect([clock.sleeping, failing.requests.length]).toEqual([0, 1]);
  });

  it("lets one slow user delay nobody else", async () => {
    const clock = createManualClock();
    const http = fakeServer(async (request, { signal }) => {
      await clock.sleep(String(request.body).includes("slow") ? 50_000 : 100, signal);
      return says("hello");
    });
    const source = llmUser({ model: "m", url, http, clock });
    const done: [string, number][] = [];
    const all = ["slow", "one", "two"].map(async (instruction) => {
      const user = source.create(testTask({ instruction }), { seed: 1 });
      await user.open();
      await user.reply("and?");
      done.push([instruction, clock.now()]);
    });
    await clock.drain();
    await Promise.all(all);
    expect(done).toEqual([
      ["one", 200],
      ["two", 200],
      ["slow", 100_000],
    ]);
  });

  it("holds the limits of its provider over all episodes, and frees its place while it waits to try again", async () => {
    const clock = createManualClock();
    const begun: number[] = [];
    let running = 0;
    let most = 0;
    const http = fakeServer(async (_request, _options, index) => {
      begun.push(clock.now());
      most = Math.max(most, ++running);
      await clock.sleep(1500);
      running--;
      return index === 0 ? { status: 429, headers: { "retry-after": "3600" }, body: "" } : says("hello");
    });
    const retry = { maxAttempts: 2, maxElapsedMs: 1e9, baseDelayMs: 0, maxDelayMs: 0 };
    const source = llmUser({ model: "m", url, http, clock, retry, maxConcurrency: 2, requestsPerMinute: 60 });
    const all = [1, 2, 3, 4].map((seed) => source.create(testTask(), { seed }).open());
    await clock.drain();
    await Promise.all(all);
    expect(most).toBe(2);
    expect(begun).toEqual([0, 1000, 2000, 3000, 3_601_500]);
  });
});

describe("llmUser() and keys", () => {
  it("sends a key only where it belongs", async () => {
    const variables = { OPENAI_API_KEY: key, MINE: "other-key" };
    const authorization = async (options: ModelUserOptions) => {
      const http = answering(says("hello"));
      await userOf({ http, variables, ...options }).open();
      return http.requests[0]?.headers["authorization"];
    };
    expect(await authorization({ url: "https://api.openai.com/v1" })).toBe(`Bearer ${key}`);
    expect(await authorization({ url: "https://elsewhere.example/v1" })).toBeUndefined();
    expect(await authorization({ apiKeyVariable: "MINE" })).toBe("Bearer other-key");
    expect(await authorization({ apiKey: " given-key\n" })).toBe("Bearer given-key");
  });

  it("shows keys in no error, no object and no line", async () => {
    const clock = createManualClock();
    const header = "header-secret-456";
    const echo = { status: 500, body: { error: { message: `Bad key ${key}, header ${header}.` } } };
    const http = fakeServer(() => echo);
    const source = llmUser({
      model: "m",
      url: "http://127.0.0.1:1/?token=pass-word",
      http,
      clock,
      apiKey: key,
      headers: { "x-key": header },
    });
    const user = source.create(testTask(), { seed: 1 });
    const failing = failureOf(user.open());
    await clock.drain();
    const error = await failing;
    expect(error.failure.cause).toContain("Bad key ***, header ***.");
    const shown = [error, source, user].flatMap((value) => [
      inspect(value, { depth: 20, showHidden: true }),
      JSON.stringify(value),
    ]);
    for (const text of [...shown, String(error.stack)]) expect(text).not.toMatch(/sk-open|header-secret|pass-word/);
  });
});
