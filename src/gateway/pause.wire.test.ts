// A trainer pauses the server and loads weights while a client has received half of an answer: the
// answer continues from the sampled ids, each token has the version that sampled it, and an endless
// pause is an error with a retry delay.

import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import type { Engine, EngineControl } from "../core/index.ts";
import { createSglangEngine } from "../engines/sglang/index.ts";
import { createVllmEngine } from "../engines/vllm/index.ts";
import { createQwenRenderer } from "../renderers/index.ts";
import { episodeSamples } from "../rollout/index.ts";
import { createFileRunStore } from "../store/index.ts";
import { createSglangFront, createVllmFront, plainLogprob, type Sampler } from "../testing/index.ts";
import { createReadableTokenizer } from "../tokenizers/index.ts";
import { createGateway, type Gateway, type GatewayOptions } from "./index.ts";

const tokenizer = createReadableTokenizer();
const answer = Array.from({ length: 12 }, (_, index) => `Sentence number ${index} of a long answer.`).join(" ");
const answerIds = tokenizer.encode(`${answer}<|im_end|>`);

type Server = {
  readonly engine: Engine & EngineControl;
  /** Reports new weights to the server, as a trainer does. */
  readonly load: (version: string) => Promise<void>;
  /** Every id that the server sampled, in order. */
  readonly sampled: number[];
};

/**
 * Samples the answer, one id every few milliseconds, from the position that the prompt has reached.
 * Blocks while paused.
 */
function slowSampler(sampled: number[]): Sampler {
  let resume: (() => void) | null = null;
  let held = Promise.resolve();
  return {
    pause: () => {
      if (resume === null) held = new Promise((resolve) => (resume = resolve));
    },
    resume: () => {
      resume?.();
      resume = null;
    },
    sample: async ({ promptIds }, { signal, onTokens }) => {
      const isSaid = (count: number): boolean =>
        answerIds.subarray(0, count).every((id, at) => promptIds[promptIds.length - count + at] === id);
      let at = Math.min(answerIds.length, promptIds.length);
      while (!isSaid(at)) at--;
      const ids: number[] = [];
      for (; at < answerIds.length; at++) {
        await new Promise((resolve) => setTimeout(resolve, 3));
        await held;
        if (signal.aborted) break;
        ids.push(answerIds[at]!);
        sampled.push(answerIds[at]!);
        if (onTokens([answerIds[at]!], [plainLogprob(at)]) === "stop") break;
      }
      const logprobs = ids.map((_, place) => plainLogprob(place));
      return { ids, logprobs, finish: signal.aborted ? "abort" : "end", cachedTokens: 0, weightVersion: null };
    },
  };
}

const cleanups: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

const servers: Readonly<Record<string, () => Promise<Server>>> = {
  sglang: async () => {
    const sampled: number[] = [];
    const front = createSglangFront({ sampler: slowSampler(sampled), tokenizer, weightVersion: "v1" });
    const listener = await front.listen();
    const engine = createSglangEngine({ url: listener.url });
    cleanups.push(() => listener.close());
    return { engine, sampled, load: (version) => posted(`${listener.url}/update_weight_version`, version) };
  },
  vllm: async () => {
    const sampled: number[] = [];
    const front = createVllmFront({ sampler: slowSampler(sampled), tokenizer, weightVersion: "v1" });
    const listener = await front.listen();
    const engine = createVllmEngine({ url: listener.url, onWarning: () => undefined });
    cleanups.push(() => listener.close());
    return { engine, sampled, load: (version) => posted(`${listener.url}/update_weight_version`, version) };
  },
};

async function posted(url: string, version: string): Promise<void> {
  const body = JSON.stringify({ new_version: version, weight_version: version, abort_all_requests: false });
  const { ok, status } = await fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body });
  if (!ok) throw new Error(`${url}: ${status}`);
}

type Opened = Server & { readonly gateway: Gateway; readonly url: string };

async function open(kind: string, options: Partial<GatewayOptions> = {}): Promise<Opened> {
  const server = await servers[kind]!();
  await server.engine.weightVersion();
  const store = createFileRunStore(mkdtempSync(join(tmpdir(), "trainable-agents-pause-")));
  await store.begin(new Map<string, never>([["format", 4 as never]]));
  const renderer = createQwenRenderer({ tokenizer, family: "qwen2.5-instruct" });
  const gateway = createGateway(
    { engine: server.engine, renderer, store },
    { keepAliveMs: 40, sampling: { maxNewTokens: 4000 }, ...options },
  );
  const listener = await gateway.listen({ port: 0 });
  cleanups.push(
    () => server.engine.close(),
    () => store.close(new Map<string, never>([["format", 4 as never]])),
    async () => gateway.close(),
    () => listener.close(),
  );
  return { ...server, gateway, url: listener.url };
}

const dialects = {
  chat: { path: "/v1/chat/completions", own: {}, end: "[DONE]" },
  messages: { path: "/v1/messages", own: { max_tokens: 4000 }, end: "message_stop" },
  responses: { path: "/v1/responses", own: {}, end: "response.completed" },
} as const;

/** A client that is reading an answer. */
class Reading {
  text = "";
  readonly status: number;
  readonly headers: Headers;
  readonly #parts: AsyncIterator<Uint8Array>;

  constructor(response: Response) {
    this.status = response.status;
    this.headers = response.headers;
    this.#parts = (response.body as AsyncIterable<Uint8Array> & ReadableStream)[Symbol.asyncIterator]();
  }

  /** Reads until the text matches, or to the end. */
  async until(fits: (text: string) => boolean): Promise<string> {
    while (!fits(this.text)) {
      const part = await this.#parts.next();
      if (part.done === true) break;
      this.text += Buffer.from(part.value).toString("utf8");
    }
    return this.text;
  }
}

async function ask(url: string, dialect: keyof typeof dialects, isStreamed = true): Promise<Reading> {
  const { path, own } = dialects[dialect];
  const messages = [{ role: "user", content: "Say it." }];
  const body = {
    model: "m",
    stream: isStreamed,
    ...own,
    ...(dialect === "responses" ? { input: messages } : { messages }),
  };
  const headers = { "content-type": "application/json", authorization: "Bearer s1" };
  return new Reading(await fetch(`${url}${path}`, { method: "POST", headers, body: JSON.stringify(body) }));
}

/** Text of the answer, read from the events as a client does. */
function contentIn(text: string): string {
  return text
    .split("\n")
    .filter((line) => line.startsWith("data: {"))
    .map((line) => JSON.parse(line.slice(6)) as Record<string, unknown>)
    .map((event) => {
      if (event["type"] === "response.output_text.delta") return event["delta"];
      const delta = event["delta"] as { readonly text?: string } | undefined;
      if (event["type"] === "content_block_delta") return delta?.text;
      const [choice] = (event["choices"] ?? []) as readonly { readonly delta: { readonly content?: string } }[];
      return choice?.delta.content;
    })
    .filter((part) => typeof part === "string")
    .join("");
}

const hasBegun = (text: string): boolean => contentIn(text).length > 60;

describe.each(["sglang", "vllm"])("weights change while a client of %s has half of an answer", (kind) => {
  test.each(["chat", "messages", "responses"] as const)("%s: the answer continues from its ids", async (dialect) => {
    const { engine, load, sampled, gateway, url } = await open(kind);
    const reading = await ask(url, dialect);
    await reading.until(hasBegun);
    await engine.pause("abort");
    const before = sampled.length;
    await load("v2");
    if (kind === "vllm") await (engine as ReturnType<typeof createVllmEngine>).reportWeightVersion("v2");
    const paused = reading.text.length;
    await reading.until((text) => text.slice(paused).includes(": keepalive\n"));
    expect(sampled).toHaveLength(before);
    await engine.continue();
    const text = await reading.until((all) => all.includes(dialects[dialect].end));
    expect(contentIn(text)).toBe(answer);
    expect(sampled).toEqual([...answerIds]);
    const episode = await gateway.end("s1");
    const { turns } = episode.trajectory;
    expect(turns).toHaveLength(1);
    expect([...turns[0]!.sampledTokens]).toEqual([...answerIds]);
    expect(turns[0]!.logprobs).toHaveLength(answerIds.length);
    // Each token has the weights that sampled it.
    expect(turns[0]!.weightSpans.map(({ tokenCount, reply }) => [tokenCount, reply])).toEqual([
      [before, "v1"],
      [answerIds.length - before, "v2"],
    ]);
    expect(episodeSamples({ ...episode, reward: 1 }).dropped).toEqual([]);
  });
});

test("weights change in place: the server holds its request, and says which token is of which weights", async () => {
  const { engine, load, sampled, gateway, url } = await open("sglang");
  const reading = await ask(url, "chat");
  await reading.until(hasBegun);
  await engine.pause("in-place");
  await new Promise((resolve) => setTimeout(resolve, 20));
  const before = sampled.length;
  await load("v2");
  const paused = reading.text.length;
  await reading.until((text) => text.slice(paused).includes(": keepalive\n"));
  await engine.continue();
  expect(contentIn(await reading.until((text) => text.includes("[DONE]")))).toBe(answer);
  expect(sampled).toEqual([...answerIds]);
  const { turns } = (await gateway.end("s1")).trajectory;
  expect(turns[0]!.weightSpans.map(({ tokenCount, reply }) => [tokenCount, reply])).toEqual([
    [before, "v1"],
    [answerIds.length - before, "v2"],
  ]);
});

describe("a pause without end", () => {
  const impatient = { episode: { engineAbort: { onAbort: "continue", maxPauseMs: 150 } } } as const;

  test.each([
    ["chat", '"code":"overloaded"'],
    ["messages", '"type":"overloaded_error"'],
    ["responses", '"status":"failed"'],
  ] as const)("%s: ends the stream with an error; asked again, the turn is sampled anew", async (dialect, error) => {
    const { engine, sampled, gateway, url } = await open("sglang", impatient);
    const reading = await ask(url, dialect);
    await reading.until(hasBegun);
    await engine.pause("abort");
    const before = sampled.length;
    const text = await reading.until(() => false);
    expect(text).toContain(error);
    expect(text).not.toContain(dialects[dialect].end);
    await engine.continue();
    const again = await (await ask(url, dialect)).until(() => false);
    expect(contentIn(again)).toBe(answer);
    expect(sampled).toHaveLength(before + answerIds.length);
    await gateway.reward("s1", { reward: 1, metrics: {}, log: "", info: new Map() });
    const episode = await gateway.end("s1");
    const { samples, dropped } = episodeSamples(episode);
    expect(samples).toHaveLength(1);
    expect(samples[0]!.lossMask.reduce((sum, one) => sum + one, 0)).toBe(answerIds.length);
    expect(dropped.reduce((sum, { count }) => sum + count, 0)).toBe(before);
  });

  test.each(["chat", "messages", "responses"] as const)(
    "%s: a whole answer is a 503 with retry-after",
    async (dialect) => {
      const { engine, url, sampled } = await open("sglang", impatient);
      const asked = ask(url, dialect, false);
      while (sampled.length < 5) await new Promise((resolve) => setTimeout(resolve, 5));
      await engine.pause("abort");
      const { status, headers } = await asked;
      expect(status).toBe(503);
      expect(Number(headers.get("retry-after"))).toBeGreaterThan(0);
      await engine.continue();
    },
  );
});
