// Invalid replies, over sockets, whole and streamed, to every HTTP engine: each must yield the code
// in the table (or tokens, if the table says "accepted"), and concurrent calls must get their own
// tokens. A rejection means that the call failed without a turn, so nothing of such a reply can be
// recorded.

import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { EngineFailureCode, SampleResult } from "../core/engine.ts";
import { AttributedError } from "../core/failure.ts";
import { createSglangEngine } from "../engines/sglang/index.ts";
import { createVllmEngine } from "../engines/vllm/index.ts";
import { createManualClock } from "../lib/clock.test-helper.ts";
import { request } from "./engine-calls.test-helper.ts";
import type { ServerEngineOptions } from "./index.ts";

const kinds = ["SGLang", "vLLM generate", "vLLM completions"] as const;
type Kind = (typeof kinds)[number];
type Json = Readonly<Record<string, unknown>>;

/**
 * The reply to one request in a server-independent form. The valid one continues [1, 2, 3] with [5,
 * 6, 9].
 */
type Reply = {
  readonly ids: unknown;
  /** Ids and logprobs, one pair for each sampled token. */
  readonly logged: unknown;
  readonly finish: unknown;
  readonly matched: unknown;
  readonly promptTokens: unknown;
  readonly completionTokens: unknown;
  readonly cachedTokens: unknown;
  readonly versions: unknown;
};

const pairs = (ids: readonly unknown[], logprobs: readonly unknown[]): unknown =>
  logprobs.map((logprob, index) => [ids[index], logprob]);
const rightIds = [5, 6, 9];
const rightLogprobs = [-0.5, -0.25, -0.125];
const right: Reply = {
  ids: rightIds,
  logged: pairs(rightIds, rightLogprobs),
  finish: "stop",
  matched: 9,
  promptTokens: 3,
  completionTokens: 3,
  cachedTokens: 1,
  versions: [{ version: "v1", start: 0, end: 3 }],
};
/** The same reply with other ids or logprobs, of any number. */
const sampled = (ids: readonly unknown[], logprobs: readonly unknown[] = ids.map(() => -0.5)): Partial<Reply> => ({
  ids,
  logged: pairs(ids, logprobs),
  completionTokens: ids.length,
  versions: [{ version: "v1", start: 0, end: ids.length }],
});

const vocabularySize = 2000;
const maxNewTokens = 8;

/** The body of a whole answer in the format of the server. */
function write(kind: Kind, reply: Reply): Json {
  const { ids, logged, finish, matched, promptTokens, completionTokens, cachedTokens, versions } = reply;
  const list = Array.isArray(logged) ? (logged as readonly (readonly unknown[])[]) : null;
  if (kind === "SGLang") {
    const finish_reason = typeof finish === "string" ? { type: finish, matched } : finish;
    const output_token_logprobs = list?.map((pair) => [pair[1], pair[0], null]) ?? logged;
    const counts = { prompt_tokens: promptTokens, completion_tokens: completionTokens, cached_tokens: cachedTokens };
    const meta = { id: "r", finish_reason, weight_version: "v1", weight_versions: versions, output_token_logprobs };
    return { text: "", output_ids: ids, meta_info: { ...meta, ...counts } };
  }
  const logprobs =
    kind === "vLLM generate"
      ? { content: list?.map(([token_id, logprob]) => ({ token_id, logprob, rank: 1, top_logprobs: [] })) ?? logged }
      : {
          tokens: list?.map(([id]) => `token_id:${String(id)}`) ?? logged,
          token_logprobs: list?.map(([, logprob]) => logprob) ?? logged,
        };
  const choice = { index: 0, token_ids: ids, logprobs, finish_reason: finish, stop_reason: matched };
  const prompt_tokens_details = { cached_tokens: cachedTokens };
  const usage = { prompt_tokens: promptTokens, completion_tokens: completionTokens, prompt_tokens_details };
  return { choices: [{ ...choice, weight_versions: versions }], usage };
}

/** The first token in its own frame, then the rest, then the end of the stream. */
function framesOf(kind: Kind, reply: Reply): readonly Json[] {
  const before: Reply = { ...right, ...sampled([5]), finish: null, matched: null, versions: null };
  const first = write(kind, { ...before, logged: pairs([5], [-0.5]) });
  const { ids, logged } = reply;
  if (kind === "SGLang") return [first, write(kind, reply)];
  const isSplit = Array.isArray(ids) && Array.isArray(logged) && ids[0] === 5 && logged.length > 0;
  const rest = isSplit ? { ids: ids.slice(1) as unknown, logged: logged.slice(1) as unknown } : {};
  const { usage, ...last } = write(kind, { ...reply, ...rest });
  const { choices } = first;
  return [...(isSplit ? [{ choices }] : []), last, { choices: [], usage }];
}

const events = (frames: readonly unknown[]): string =>
  [...frames.map((frame) => JSON.stringify(frame)), "[DONE]"].map((data) => `data: ${data}\n\n`).join("");

/** Sends the answer to one call. `text` is the valid answer as it would be sent. */
type Answer = (asked: {
  readonly kind: Kind;
  readonly stream: boolean;
  readonly text: string;
  readonly response: ServerResponse;
}) => void;

type Outcome = EngineFailureCode | "accepted";
type Row = readonly [name: string, outcome: Outcome | ((kind: Kind, stream: boolean) => Outcome), answer: Answer];

const change = (part: Partial<Reply>): Answer => {
  const reply = { ...right, ...part };
  return ({ kind, stream, response }) =>
    response.end(stream ? events(framesOf(kind, reply)) : JSON.stringify(write(kind, reply)));
};
const bytes = (alter: (text: string) => string | Buffer): Answer => {
  return ({ text, response }) => response.end(alter(text));
};
const status = (code: number, body: string, headers: Readonly<Record<string, string>> = {}): Answer => {
  return ({ response }) => response.writeHead(code, headers).end(body);
};
/** An error in an answer with status 200, in a body or in a frame. */
const inside = (error: unknown): Answer => {
  return ({ stream, response }) => response.end(stream ? events([error]) : JSON.stringify(error));
};
/** Sends until the client closes the connection. */
const endless = (next: (index: number) => string): Answer => {
  return ({ response }) => {
    let index = 0;
    const more = (): void => {
      while (!response.destroyed && response.write(next(index++)));
      if (!response.destroyed) response.once("drain", more);
    };
    more();
  };
};
const page = "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>";
const spans = (...list: readonly (readonly [unknown, unknown, unknown])[]): Partial<Reply> => ({
  versions: list.map(([version, start, end]) => ({ version, start, end })),
});
const bySglang = (sglang: Outcome, vllm: Outcome) => (kind: Kind) => (kind === "SGLang" ? sglang : vllm);

const tokens: readonly Row[] = [
  ["as it should be", "accepted", change({})],
  ["the last id of the vocabulary", "accepted", change(sampled([5, vocabularySize - 1, 9]))],
  ["an id beyond the vocabulary", "bad-reply", change(sampled([5, vocabularySize, 9]))],
  ["an id beyond 32 bits", "bad-reply", change(sampled([5, 2 ** 32, 9]))],
  ["a negative id", "bad-reply", change(sampled([5, -1, 9]))],
  ["half an id", "bad-reply", change(sampled([5, 6.5, 9]))],
  ["an id in quotes", "bad-reply", change({ ids: [5, "6", 9] })],
  ["null for an id", "bad-reply", change({ ids: [5, null, 9] })],
  ["true for an id", "bad-reply", change({ ids: [5, true, 9] })],
  ["a text for the ids", "bad-reply", change({ ids: "5,6,9" })],
  ["an object for the ids", "bad-reply", change({ ids: { 0: 5 } })],
  ["tokens after the stop token", "bad-reply", change({ ...sampled([5, 9, 6]), finish: "length", matched: null })],
  ["the stop token twice", "bad-reply", change(sampled([5, 9, 9]))],
  ["a match that is not the last token", "bad-reply", change({ ...sampled([5, 6, 7]) })],
  [
    "more tokens than were asked for",
    "bad-reply",
    change({ ...sampled([5, 6, 7, 8, 10, 11, 12, 13, 14]), finish: "length", matched: null }),
  ],
  ["a stop without a token", "bad-reply", change({ ...sampled([]), matched: null })],
  ["fewer ids than logprobs", "bad-reply", change({ ids: [5, 6] })],
  ["more ids than logprobs", "bad-reply", change({ ids: [5, 6, 7, 9], completionTokens: 4 })],
  ["logprobs of other ids", "bad-reply", change({ logged: pairs([5, 7, 9], rightLogprobs) })],
];

const logprobs: readonly Row[] = [
  ["rounding above 0", "accepted", change(sampled(rightIds, [-0.5, 0.0005, -0.1]))],
  ["a token of nearly no probability", "accepted", change(sampled(rightIds, [-0.5, -150, -0.1]))],
  ["a logprob above 0", "bad-reply", change(sampled(rightIds, [-0.5, 0.01, -0.1]))],
  ["probabilities in the place of logprobs", "bad-reply", change(sampled(rightIds, [0.6, 0.7, 0.9]))],
  ["null for a logprob", "bad-reply", change(sampled(rightIds, [-0.5, null, -0.1]))],
  ["a text for a logprob", "bad-reply", change(sampled(rightIds, [-0.5, "-0.25", -0.1]))],
  ["false for a logprob", "bad-reply", change(sampled(rightIds, [-0.5, false, -0.1]))],
  ["a logprob beyond 32 bits", "bad-reply", change(sampled(rightIds, [-0.5, -1e39, -0.1]))],
  ["vLLM's least logprob", "accepted", change(sampled(rightIds, [-0.5, -9999, -0.1]))],
  ["NaN in the JSON", "bad-reply", bytes((text) => text.replaceAll("-0.5", "NaN"))],
  ["-Infinity in the JSON", "bad-reply", bytes((text) => text.replaceAll("-0.5", "-Infinity"))],
  ["a number that overflows", "bad-reply", bytes((text) => text.replaceAll("-0.5", "-1e999"))],
  ["no logprobs", "bad-reply", change({ logged: null })],
  ["an empty list of logprobs", "bad-reply", change({ logged: [] })],
  ["a number for the logprobs", "bad-reply", change({ logged: 3 })],
];

const facts: readonly Row[] = [
  // vLLM's stream of an aborted request loses its last chunk.
  [
    "no finish reason",
    (kind, stream) => (stream && kind !== "SGLang" ? "accepted" : "bad-reply"),
    change({ finish: null, matched: null }),
  ],
  ["an unknown finish reason", "bad-reply", change({ finish: "repetition" })],
  ["a finish reason of a megabyte", "bad-reply", change({ matched: "x".repeat(1e6) })],
  ["a number for the finish reason", "bad-reply", change({ finish: 7 })],
  ["a count of tokens that is too low", "bad-reply", change({ completionTokens: 2 })],
  ["a negative count of tokens", "bad-reply", change({ completionTokens: -3 })],
  ["a text for the count of tokens", "bad-reply", change({ completionTokens: "3" })],
  ["a prompt of another length", "bad-reply", change({ promptTokens: 2 })],
  ["a negative length of the prompt", "bad-reply", change({ promptTokens: -3 })],
  ["a negative count of cached tokens", "accepted", change({ cachedTokens: -1 })],
  ["versions that overlap", "bad-reply", change(spans(["v1", 0, 2], ["v2", 1, 3]))],
  ["versions with a gap", "bad-reply", change(spans(["v1", 0, 1], ["v2", 2, 3]))],
  ["versions that end early", "bad-reply", change(spans(["v1", 0, 2]))],
  ["versions that end late", "bad-reply", change(spans(["v1", 0, 4]))],
  ["versions of a megabyte", "bad-reply", change(spans(["v".repeat(1e6), 0, 3]))],
  ["versions of no text", "bad-reply", change(spans([{ v: 1 }, 0, 3]))],
  ["an update in the middle", "accepted", change(spans(["v1", 0, 1], ["v2", 1, 3]))],
];

const bodies: readonly Row[] = [
  ["an empty body", "bad-reply", bytes(() => "")],
  ["half of the answer", "bad-reply", bytes((text) => text.slice(0, text.length / 2))],
  ["an HTML page with status 200", "bad-reply", bytes(() => page)],
  ["an HTML page with status 502", "server-error", status(502, page, { "content-type": "text/html" })],
  ["JSON null", "bad-reply", inside(null)],
  ["a JSON number", "bad-reply", inside(42)],
  ["a JSON list", "bad-reply", inside([])],
  ["an empty object", "bad-reply", inside({})],
  [
    "two answers, one after the other",
    "bad-reply",
    ({ stream, text, response }) => response.end(stream ? text.replaceAll("data: [DONE]\n\n", "") + text : text + text),
  ],
  ["UTF-16", "bad-reply", bytes((text) => Buffer.from(text, "utf16le"))],
  ["gzip that nobody asked for", "bad-reply", bytes((text) => gzipSync(text))],
  [
    "a million brackets",
    "bad-reply",
    ({ stream, response }) => response.end(stream ? `data: ${"[".repeat(1e6)}\n\n` : "[".repeat(1e6)),
  ],
  [
    "the other kind of answer, streamed or whole",
    "bad-reply",
    ({ kind, stream, response }) =>
      response.end(stream ? JSON.stringify(write(kind, right)) : events(framesOf(kind, right))),
  ],
  ["an error with a code inside status 200", "server-error", inside({ error: { message: "CUDA error", code: 500 } })],
  [
    "an error text inside status 200",
    "bad-request",
    inside({ error: "invalid type: floating point `5.0`, expected i64" }),
  ],
  [
    "an overflow inside status 200",
    "context-length",
    inside({
      error: { message: "The input is longer than the context length.", code: 400 },
    }),
  ],
  ["an error of no kind inside status 200", "bad-request", inside({ error: { nested: { nested: [] } } })],
  ["no content", "bad-reply", status(204, "")],
  ["a redirect", "bad-reply", status(307, "", { location: "http://127.0.0.1:1/generate" })],
  ["a redirect to itself", "bad-reply", status(302, "", { location: "/generate" })],
  ["an overload", "overloaded", status(429, "{}", { "retry-after": "1e99" })],
  ["an error that is a text", "bad-request", status(400, '{"error":"unknown field `bogus`, expected one of `n`"}')],
  ["an error page of a megabyte", "server-error", status(500, "x".repeat(1e6))],
];

const wire: readonly Row[] = [
  [
    "a body shorter than its length",
    "connection-lost",
    ({ text, response }) => {
      response.writeHead(200, { "content-length": text.length + 100 });
      response.write(text.slice(0, 60), () => response.socket?.destroy());
    },
  ],
  [
    "a body longer than its length",
    "bad-reply",
    ({ text, response }) => {
      response.socket?.end(`HTTP/1.1 200 OK\r\ncontent-length: 60\r\n\r\n${text}`);
    },
  ],
  ["a connection that ends before the answer", "connection-lost", ({ response }) => response.socket?.destroy()],
  ["no HTTP", "bad-reply", ({ response }) => response.socket?.end("SSH-2.0-OpenSSH_9.6\r\n")],
  [
    "chunks of no length",
    "bad-reply",
    ({ response }) => {
      response.socket?.end("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n{}\r\n0\r\n\r\n");
    },
  ],
];

const frame = (kind: Kind, part: Partial<Reply>): string =>
  `data: ${JSON.stringify(write(kind, { ...right, finish: null, matched: null, versions: null, ...part }))}\n\n`;
const done = "data: [DONE]\n\n";
const streamed: readonly Row[] = [
  ["a frame that is not JSON", "bad-reply", bytes((text) => text.replace("data: ", "data: {"))],
  [
    "noise between the frames",
    "bad-reply",
    bytes((text) =>
      Buffer.concat([Buffer.from(text.slice(0, 40)), Buffer.from([0, 255, 254, 10, 10]), Buffer.from(text)]),
    ),
  ],
  ["only the end mark", "bad-reply", bytes(() => done)],
  ["nothing but comments", "bad-reply", bytes(() => ": ping\n\n".repeat(1000))],
  ["no end", "bad-reply", ({ kind, response }) => response.end(frame(kind, sampled([5])))],
  [
    "a frame after the finish reason",
    "bad-reply",
    ({ kind, response }) => {
      const last = { finish: "stop", matched: 9 };
      response.end(`${frame(kind, { ...sampled([9]), ...last })}${frame(kind, sampled([9, 6]))}${done}`);
    },
  ],
  [
    "the last frame twice",
    "bad-reply",
    bytes((text) => {
      const at = text.lastIndexOf("data: {", text.lastIndexOf('"stop"'));
      const end = text.indexOf("\n\n", at) + 2;
      return text.slice(0, end) + text.slice(at);
    }),
  ],
  [
    "a first frame that comes twice",
    bySglang("accepted", "bad-reply"),
    bytes((text) => text.slice(0, text.indexOf("\n\n") + 2) + text),
  ],
  [
    "frames that overlap",
    "bad-reply",
    ({ kind, response }) => {
      const ends = { ...sampled([6, 9]), completionTokens: 3, finish: "stop", matched: 9 };
      const usage = `data: ${JSON.stringify({ choices: [], usage: { prompt_tokens: 3, completion_tokens: 3 } })}\n\n`;
      const overlapping = frame(kind, { ...sampled([5, 6]), completionTokens: kind === "SGLang" ? 3 : 2 });
      response.end(
        frame(kind, sampled([5])) + overlapping + frame(kind, ends) + (kind === "SGLang" ? "" : usage) + done,
      );
    },
  ],
  [
    "tokens without end",
    "bad-reply",
    ({ kind, response, ...rest }) =>
      endless((index) => frame(kind, kind === "SGLang" ? sampled(Array(index + 1).fill(5)) : sampled([5])))({
        kind,
        response,
        ...rest,
      }),
  ],
  [
    "frames without tokens and without end",
    "bad-reply",
    ({ kind, response, ...rest }) => endless(() => frame(kind, sampled([])))({ kind, response, ...rest }),
  ],
];

/** Only the deadline ends these. */
const slow: readonly Row[] = [
  ["silence", "timeout", () => undefined],
  ["headers and silence", "timeout", ({ response }) => response.flushHeaders()],
  ["half of the answer and silence", "timeout", ({ text, response }) => void response.write(text.slice(0, 50))],
];

let server: Server;
let answer: Answer = change({});
/** Called when the server receives a hostile call. */
let onHostile = (): void => undefined;

beforeAll(async () => {
  server = createServer((incoming, response) => {
    const parts: Buffer[] = [];
    incoming.on("data", (part: Buffer) => parts.push(part));
    incoming.on("end", () => {
      response.on("error", () => undefined);
      const asked = JSON.parse(Buffer.concat(parts).toString() || "{}") as Json;
      const path = incoming.url ?? "";
      if (!/generate|completions/.test(path)) return response.end();
      const kind: Kind =
        path === "/generate" ? "SGLang" : path === "/v1/completions" ? "vLLM completions" : "vLLM generate";
      const stream = asked["stream"] === true;
      const text = stream ? events(framesOf(kind, right)) : JSON.stringify(write(kind, right));
      const isHostile = [asked["rid"], asked["request_id"]].includes("hostile");
      (isHostile ? answer : change({}))({ kind, stream, text, response });
      if (isHostile) onHostile();
      return undefined;
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

const outcomeOf = async (call: Promise<SampleResult>): Promise<Outcome> => {
  try {
    const { sampledTokens, logprobs: numbers, weightSpans } = await call;
    expect(numbers).toHaveLength(sampledTokens.length);
    expect(weightSpans.reduce((sum, { tokenCount }) => sum + tokenCount, 0)).toBe(sampledTokens.length);
    return "accepted";
  } catch (error) {
    if (!(error instanceof AttributedError)) throw error;
    expect(error.failure.boundary).toBe("engine");
    expect(error.message.length).toBeLessThan(1000);
    return error.failure.code as Outcome;
  }
};

describe.each(kinds)("%s", (kind) => {
  describe.each([false, true])("stream: %s", (stream) => {
    const rows = [...tokens, ...logprobs, ...facts, ...bodies, ...wire, ...slow, ...(stream ? streamed : [])];
    test.each(rows)("%s", async (name, outcomes, hostile) => {
      const clock = createManualClock();
      const { port } = server.address() as AddressInfo;
      const common: ServerEngineOptions = { vocabularySize, timeoutMs: 60_000, clock };
      const options = { ...common, url: `http://127.0.0.1:${port}`, stream };
      const endpoint = kind === "vLLM completions" ? "completions" : "generate";
      const engine = kind === "SGLang" ? createSglangEngine(options) : createVllmEngine({ ...options, endpoint });
      const arrived = new Promise<void>((resolve) => {
        onHostile = resolve;
      });
      answer = hostile;
      const ask = (requestId: string): Promise<SampleResult> =>
        engine.sample(request({ requestId, sampling: { maxNewTokens } }));
      const siblings = [ask("before")];
      const met = outcomeOf(ask("hostile"));
      siblings.push(ask("beside"));
      const isSlow = slow.some(([slowName]) => slowName === name);
      await arrived;
      for (const sibling of siblings) expect([...(await sibling).sampledTokens]).toEqual(rightIds);
      if (isSlow) await clock.advance(60_000);
      expect(await met).toBe(typeof outcomes === "string" ? outcomes : outcomes(kind, stream));
      expect([...(await ask("after")).sampledTokens]).toEqual(rightIds);
      await engine.close();
    });
  });
});

test("a whole answer without end is refused at its bound", async () => {
  const { port } = server.address() as AddressInfo;
  const engine = createSglangEngine({ url: `http://127.0.0.1:${port}` });
  const block = " ".repeat(1 << 20);
  answer = endless(() => block);
  const met = await outcomeOf(engine.sample(request({ requestId: "hostile" })));
  expect(met).toBe("bad-reply");
  await engine.close();
});
