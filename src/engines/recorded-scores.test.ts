// Scores of real servers (SGLang 0.5.23, vLLM 0.32.0, both with models/bookshop-1m on a CPU), read
// by the engines; and the requests that they were sent.

import { describe, expect, test } from "vitest";

import type { Engine } from "../core/engine.ts";
import { AttributedError } from "../core/failure.ts";
import type { Scorer, ScoreRequest, ScoreResult } from "../core/scoring.ts";
import { createHandlerClient } from "../http/handler-client.test-helper.ts";
import { loadEmbeddedEngine } from "./embedded/index.ts";
import { type Recorded, recordedReplies } from "./recorded-replies.test-helper.ts";
import { createSglangEngine } from "./sglang/index.ts";
import { createVllmEngine } from "./vllm/index.ts";

const records = recordedReplies("scores");
const vocabularySize = 1536;

function engineFor(path: string, handler: (asked: Request) => Response | Promise<Response>): Engine & Scorer {
  const http = createHandlerClient(handler, { boundary: "engine" });
  const common = { url: "http://server", http, vocabularySize };
  if (path === "/generate") return createSglangEngine(common);
  return createVllmEngine({
    ...common,
    endpoint: path === "/v1/completions" ? "completions" : "generate",
    model: "base",
  });
}

/** The request that gets this answer. */
function requestOf({ body }: Recorded): ScoreRequest {
  const ids = (body["input_ids"] ?? body["token_ids"] ?? body["prompt"]) as readonly number[];
  const params = (body["sampling_params"] ?? body) as Readonly<Record<string, unknown>>;
  return {
    tokens: Uint32Array.from(ids),
    from: Number(body["logprob_start_len"] ?? 0) + 1,
    topTokens: Number(body["top_logprobs_num"] ?? params["prompt_logprobs"] ?? body["prompt_logprobs"] ?? 0),
    requestId: "r",
    routingKey: null,
  };
}

const named = (name: string): Recorded => records.find((record) => record.name === name)!;
const scored = (record: Recorded, reply = record.reply): Promise<ScoreResult> =>
  engineFor(record.path, () => new Response(reply, { status: record.status })).score(requestOf(record));

async function failureOf(call: Promise<unknown>): Promise<AttributedError["failure"]> {
  const error: unknown = await call.catch((reason: unknown) => reason);
  if (error instanceof AttributedError) return error.failure;
  throw new Error("It did not fail.", { cause: error });
}

describe.each(records.filter(({ status }) => status === 200))("$path, $name", (record) => {
  const request = requestOf(record);

  test("yields one logprob for each token, and the most probable tokens", async () => {
    const { logprobs, top } = await scored(record);
    expect(logprobs).toHaveLength(request.tokens.length - request.from);
    expect(logprobs.every((logprob) => logprob <= 0 && logprob > -40)).toBe(true);
    if (request.topTokens === 0) return expect(top).toBeNull();
    expect(top!.width).toBe(request.topTokens);
    for (let index = 0; index < logprobs.length; index++) {
      const row = top!.logprobs.subarray(index * top!.width, (index + 1) * top!.width);
      expect([...row]).toEqual([...row].sort((one, other) => other - one));
      const own = top!.ids
        .subarray(index * top!.width, (index + 1) * top!.width)
        .indexOf(request.tokens[request.from + index]!);
      // A token that is not listed is less probable than all that are.
      if (own >= 0) expect(row[own]).toBe(logprobs[index]);
      else expect(logprobs[index]).toBeLessThanOrEqual(row.at(-1));
    }
  });

  test("asks for it as it was recorded", async () => {
    const sent: Readonly<Record<string, unknown>>[] = [];
    const engine = engineFor(record.path, async (asked) => {
      sent.push((await asked.json()) as Readonly<Record<string, unknown>>);
      return new Response(record.reply);
    });
    await engine.score(request);
    const { token_ids_logprob: _, ...body } = record.body;
    expect(sent).toHaveLength(1);
    expect(sent[0]).toMatchObject(body);
  });

  test.each([
    ["another id", ([id, score]: Entry): Entry => [id + 1, score]],
    ["a lost logprob", ([id]: Entry): Entry => [id, null]],
    ["a probability above 1", ([id]: Entry): Entry => [id, 0.5]],
    ["a text", ([id]: Entry): Entry => [id, "-0.5"]],
    ["a missing position", () => null],
  ])("refuses %s", async (_, change) => {
    expect((await failureOf(scored(record, changed(record, change)))).code).toBe("bad-reply");
  });

  test.each([
    ["no scores", record.reply.replaceAll("input_token_logprobs", "other").replaceAll("prompt_logprobs", "other")],
    ["half of it", record.reply.slice(0, record.reply.length / 2)],
    ["another thing", "[]"],
  ])("refuses %s", async (_, reply) => {
    expect((await failureOf(scored(record, reply))).code).toBe("bad-reply");
  });
});

type Entry = readonly [id: number, logprob: unknown];

/** The reply with its last score changed, or without it. */
function changed(record: Recorded, change: (entry: Entry) => Entry | null): string {
  const { tokens } = requestOf(record);
  const last = tokens.at(-1) ?? 0;
  const value = JSON.parse(record.reply) as {
    readonly meta_info?: { readonly input_token_logprobs: unknown[] };
    readonly prompt_logprobs?: unknown[];
    readonly choices?: readonly { readonly prompt_logprobs?: unknown[] }[];
  };
  const own = value.meta_info?.input_token_logprobs;
  if (own !== undefined) {
    const [logprob] = own.pop() as readonly unknown[];
    const next = change([last, logprob]);
    if (next !== null) own.push([next[1], next[0], null]);
    return JSON.stringify(value);
  }
  const list = (value.prompt_logprobs ?? value.choices?.[0]?.prompt_logprobs)!;
  const entry = list.pop() as Record<string, { readonly logprob: unknown }>;
  const next = change([last, entry[last]!.logprob]);
  delete entry[last];
  if (next !== null) list.push({ ...entry, [next[0]]: { logprob: next[1], rank: 1 } });
  return JSON.stringify(value);
}

test("both servers give the same scores of the same tokens", async () => {
  const [sglang, vllm] = await Promise.all([scored(named("score max_new_tokens 0")), scored(named("score k=5"))]);
  const count = Math.min(sglang.logprobs.length, vllm.logprobs.length);
  expect(count).toBeGreaterThan(10);
  for (let at = 0; at < count; at++) expect(Math.abs(sglang.logprobs[at]! - vllm.logprobs[at]!)).toBeLessThan(1e-4);
  expect(sglang.top!.ids.subarray(0, count * 5)).toEqual(vllm.top!.ids.subarray(0, count * 5));
});

test("the embedded engine gives the scores of the servers", async () => {
  const engine = await loadEmbeddedEngine("models/bookshop-1m", { threads: 1 });
  for (const record of records.filter(({ status }) => status === 200)) {
    const [own, theirs] = await Promise.all([engine.score(requestOf(record)), scored(record)]);
    own.logprobs.forEach((logprob, at) => expect(Math.abs(logprob - theirs.logprobs[at]!)).toBeLessThan(1e-4));
    own.top?.logprobs.forEach((logprob, at) =>
      expect(Math.abs(logprob - theirs.top!.logprobs[at]!)).toBeLessThan(1e-4),
    );
  }
  await engine.close();
});

test("names the weights that scored, if the server does", async () => {
  expect((await scored(named("score from"))).weightVersion).toBe("w0");
  expect((await scored(named("score k=0"))).weightVersion).toBe("default");
  expect((await scored(named("completions score"))).weightVersion).toBeNull();
});

test("a refusal has its code", async () => {
  expect(await failureOf(scored(named("score max_tokens 0")))).toMatchObject({ code: "bad-request", retryable: false });
});

describe.each(["/generate", "/inference/v1/generate"])("a call to %s", (path) => {
  const request: ScoreRequest = {
    tokens: Uint32Array.of(1, 2, 3),
    from: 1,
    topTokens: 0,
    requestId: "r",
    routingKey: null,
  };

  test.each([
    ["no token before the first", { from: 0 }],
    ["nothing to score", { from: 3 }],
    ["a fraction", { from: 1.5 }],
    ["too many most probable tokens", { topTokens: 257 }],
    ["a token outside of the vocabulary", { tokens: Uint32Array.of(1, 2, vocabularySize) }],
  ])("with %s sends nothing", async (_, change) => {
    const engine = engineFor(path, () => {
      throw new Error("It was sent.");
    });
    expect((await failureOf(engine.score({ ...request, ...change }))).code).toBe("bad-request");
  });

  test("that is cancelled is aborted on the server", async () => {
    const paths: string[] = [];
    const controller = new AbortController();
    const engine = engineFor(path, (asked) => {
      paths.push(new URL(asked.url).pathname);
      if (asked.method === "GET") return new Response("", { status: 404 });
      if (new URL(asked.url).pathname !== path) return new Response("{}");
      queueMicrotask(() => controller.abort());
      return new Promise(() => undefined);
    });
    expect((await failureOf(engine.score(request, { signal: controller.signal }))).code).toBe("cancelled");
    await engine.close();
    expect(paths.some((other) => /abort/.test(other))).toBe(true);
  });

  test("with the key of an episode goes where the episode's calls go", async () => {
    const seen: (string | null)[] = [];
    const header = path === "/generate" ? "x-smg-routing-key" : "x-session-id";
    const engine = engineFor(path, (asked) => {
      seen.push(asked.headers.get(header));
      return new Response("", { status: 503 });
    });
    expect(await failureOf(engine.score({ ...request, routingKey: "e" }))).toMatchObject({
      code: "overloaded",
      retryable: true,
    });
    expect(seen).toEqual(["e"]);
  });
});
