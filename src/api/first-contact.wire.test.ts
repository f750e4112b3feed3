// Requests to servers before a run begins, over sockets: servers that answer each path as the test
// specifies.

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { ConfigurationError } from "../core/index.ts";
import { createSglangEngine } from "../engines/sglang/index.ts";
import { createVllmEngine } from "../engines/vllm/index.ts";
import { createManualClock, type ManualClock } from "../lib/clock.test-helper.ts";
import { createReadableTokenizer } from "../tokenizers/index.ts";
import type { ServerEngine } from "../parts/engine.ts";
import { checkChatModel, checkServerModel, untilServerIsReady } from "./first-contact.ts";

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) await cleanup();
});

type Answer = number | "break" | Readonly<Record<string, unknown>>;
type Answers = Readonly<Record<string, Answer | (() => Answer)>>;

/** A number is a status; an object is the JSON of status 200; everything else is 404. */
async function serve(answers: Answers): Promise<string> {
  const server = createServer((incoming, response) => {
    incoming.resume();
    const given = answers[incoming.url ?? ""] ?? 404;
    const answer = typeof given === "function" ? given() : given;
    if (answer === "break") response.destroy();
    else if (typeof answer === "number") response.writeHead(answer).end();
    else response.end(JSON.stringify(answer));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  cleanups.push(
    () => server.closeAllConnections(),
    () => server.close(),
  );
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const engines = { SGLang: createSglangEngine, vLLM: createVllmEngine } as const;
function engineAt(kind: keyof typeof engines, url: string): ServerEngine {
  const engine = engines[kind]({ url });
  cleanups.push(() => engine.close());
  return engine;
}

/** Lets time pass until the work is done. */
async function advanceUntil(work: Promise<unknown>, clock: ManualClock): Promise<void> {
  const state = { isDone: false };
  const done = work.finally(() => {
    state.isDone = true;
  });
  while (!state.isDone) await clock.advance(1000);
  await done;
}

const nothing = (): Promise<void> => Promise.resolve();
const signal = new AbortController().signal;
const refusalOf = async (work: Promise<unknown>): Promise<string> => {
  const error = await work.then(
    () => null,
    (reason: unknown) => reason,
  );
  if (error === null) return "";
  if (!(error instanceof ConfigurationError)) throw error;
  return error.message;
};

describe.each(Object.keys(engines) as (keyof typeof engines)[])("the first contact with %s", (kind) => {
  test("waits for a server that answers and takes no requests yet, and says so once", async () => {
    let asked = 0;
    const url = await serve({ "/health": () => (++asked < 3 ? 503 : 200) });
    const notes: string[] = [];
    const clock = createManualClock();
    const options = { maxWaitMs: 60_000, waitsForUnreachable: false, signal, clock };
    const ready = untilServerIsReady(
      engineAt(kind, url),
      { ...options, onNotice: (note) => notes.push(note) },
      nothing,
    );
    await advanceUntil(ready, clock);
    expect(asked).toBe(3);
    expect(notes).toEqual([`The server at ${url} takes no requests yet; waiting 60 seconds at most.`]);
  });

  test("asks again when a worker behind a ready router has just died", async () => {
    const url = await serve({ "/health": 200 });
    const gone = engineAt(kind, "http://127.0.0.1:1");
    const clock = createManualClock();
    const options = { maxWaitMs: 60_000, waitsForUnreachable: false, signal, clock, onNotice: () => undefined };
    let tries = 0;
    const ask = async (): Promise<number> => (++tries < 3 ? Number(await gone.health({ signal })) : tries);
    const asked = untilServerIsReady(engineAt(kind, url), options, ask);
    await advanceUntil(asked, clock);
    expect(await asked).toBe(3);
  });

  test("gives up after the time, and names what it may be", async () => {
    const url = await serve({ "/health": 503 });
    const options = { maxWaitMs: 0, waitsForUnreachable: true, signal, onNotice: () => undefined };
    expect(await refusalOf(untilServerIsReady(engineAt(kind, url), options, nothing))).toContain("raise --engine-wait");
  });

  test.each([false, true])("waits for one that cannot be reached: %s", async (waitsForUnreachable) => {
    const url = await serve({});
    for (const cleanup of cleanups.splice(0)) await cleanup();
    const clock = createManualClock();
    const notes: string[] = [];
    const options = {
      maxWaitMs: 3000,
      waitsForUnreachable,
      signal,
      clock,
      onNotice: (note: string) => notes.push(note),
    };
    const failed = expect(untilServerIsReady(engineAt(kind, url), options, nothing)).rejects.toMatchObject({
      failure: { code: "unreachable" },
    });
    await advanceUntil(failed, clock);
    expect(notes).toHaveLength(waitsForUnreachable ? 1 : 0);
  });

  const tokenizer = createReadableTokenizer();
  const wanted = { tokenizer, folder: "model", maxContextTokens: 2048, sampling: [], signal };
  const models = (max_model_len: unknown) => ({ "/v1/models": { data: [{ id: "m", max_model_len }] } });
  test.each<[string, Answers, string]>([
    ["a context that is long enough", models(2048), ""],
    ["a context that is too short", models(2047), "has a context of 2047 tokens"],
    ["a context that makes no sense", models("long"), ""],
    ["another vocabulary", { "/tokenize": { tokens: [5, 6, 7], max_model_len: 4096 } }, "has a different vocabulary"],
    ["nothing to say", {}, ""],
    ["errors", { "/v1/models": 500, "/tokenize": 422 }, ""],
    ["a gateway that breaks off what it does not know", { "/v1/models": "break", "/tokenize": "break" }, ""],
  ])("compares the model of the folder with that of a server that has %s", async (_name, answers, words) => {
    const message = await refusalOf(checkServerModel(engineAt(kind, await serve(answers)), wanted));
    expect(message === "").toBe(words === "");
    expect(message).toContain(words);
  });
});

test("behind a router every worker is compared, and what the router would leave out is refused", async () => {
  const worker = await serve({ "/v1/models": { data: [{ id: "m", max_model_len: 1000 }] } });
  const router = await serve({
    "/workers": { workers: [{ url: worker, is_healthy: true }] },
    "/v1/models": { data: [] },
  });
  const engine = engineAt("SGLang", router);
  const wanted = { tokenizer: createReadableTokenizer(), folder: null, sampling: ["top_p", "logit_bias"], signal };
  expect(await refusalOf(checkServerModel(engine, { ...wanted, maxContextTokens: null }))).toContain(
    "it silently drops logit_bias",
  );
  const message = await refusalOf(checkServerModel(engine, { ...wanted, sampling: ["top_p"], maxContextTokens: 2000 }));
  expect(message).toContain(`the server at ${worker} has a context of 1000 tokens`);
});

describe("checkChatModel()", () => {
  const list = (...ids: readonly string[]): Answers => ({ "/v1/models": { data: ids.map((id) => ({ id })) } });
  const chat = (answer: Answer): Answers => ({ "/v1/chat/completions": answer });
  const ask = (url: string) => ({ part: "user", url, model: "m", apiKey: "sk-1", variables: {} }) as const;
  test.each<[string, Answers, string]>([
    ["a server that has the model", list("other", "m"), ""],
    ["a server that has a tag of it", list("m:latest"), ""],
    ["a proxy for any model", list("openai/*"), ""],
    ["a server without a list", {}, ""],
    ["a server of other models", list("a", "b"), `Cannot use "m" as the user's model: the server at`],
    ["a server that refuses the key", { "/v1/models": 401 }, "--user-api-key-env"],
    ["a server that refuses the key everywhere", { "/v1/models": 401, ...chat(401) }, "--user-api-key-env"],
    ["a server that refuses the key to those who play", { ...list("a"), ...chat(401) }, "--user-api-key-env"],
    ["a key that may play but not list models", { "/v1/models": 403, ...chat({ choices: [] }) }, ""],
    ["a server that takes any name", { ...list("/models/other.gguf"), ...chat({ choices: [] }) }, ""],
    ["a server that lists other names than it takes", { ...list("models/m"), ...chat({ choices: [] }) }, ""],
    ["a server that refuses the question", { ...list("a"), ...chat(400) }, ""],
    ["a server that is too busy for the question", { ...list("a"), ...chat(429) }, ""],
  ])("%s", async (_name, answers, words) => {
    const url = `${await serve(answers)}/v1`;
    const message = await refusalOf(checkChatModel(ask(url), signal));
    expect(message === "").toBe(words === "");
    expect(message).toContain(words);
  });

  test.each(["", "/v1/chat/completions"])("reads the address as the calls do: %j behind the host", async (path) => {
    const url = `${await serve(list("a"))}${path}`;
    expect(await refusalOf(checkChatModel(ask(url), signal))).toContain("has a; correct --user-model");
  });

  test("the judge's server is asked as the others are", async () => {
    const url = `${await serve(list("a"))}/v1`;
    const message = await refusalOf(checkChatModel({ ...ask(url), part: "judge", apiKey: null }, signal));
    expect(message).toContain(`Cannot use "m" as the judge's model: the server at`);
    expect(message).toContain("correct --judge-model");
  });

  test("a server that is not there", async () => {
    const url = await serve({});
    for (const cleanup of cleanups.splice(0)) await cleanup();
    const message = await refusalOf(checkChatModel({ ...ask(url), part: "agent", apiKey: null }, signal));
    expect(message).toContain(`Cannot reach the server of the agent's model at ${url}: the connection was refused`);
  });
});
