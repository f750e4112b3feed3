import { describe, expect, test } from "vitest";
import { vllmDialect } from "./vllm-engine.ts";
import { apiKey, failureOf, request } from "../../http/engine-calls.test-helper.ts";
import { engineOf } from "./vllm.test-helper.ts";

const flat = (message: string, code = 400, type = "BadRequestError"): string =>
  JSON.stringify({ object: "error", message, type, param: null, code });
const nested = (message: string, code: number | string = 400, type = "BadRequestError"): string =>
  JSON.stringify({ error: { message, type, param: null, code } });
const detail = (words: unknown): string => JSON.stringify({ detail: words });

const oldOverflow =
  "This model's maximum context length is 8 tokens. However, you requested 9 tokens (4 in the messages, 5 in the completion). Please reduce the length of the messages or completion.";
const newOverflow =
  "This model's maximum context length is 8 tokens. However, you requested 5 output tokens and your prompt contains at least 4 input tokens, for a total of at least 9 tokens.";
const engineOverflow = "The decoder prompt (length 9) is longer than the maximum model length of 8.";

/** Name, status, body, code, retryable, and text that the message must contain. */
const answers: readonly (readonly [string, number, string, string, boolean, string])[] = [
  ["a value out of range, flat", 400, flat("top_p must be in (0, 1], got 2."), "bad-request", false, "got 2."],
  ["a value out of range, nested", 400, nested("top_p must be in (0, 1], got 2."), "bad-request", false, "got 2."],
  ["the framework's own shape", 422, detail([{ msg: "bad" }]), "bad-request", false, "msg"],
  ["too long, as old servers say it", 400, flat(oldOverflow), "context-length", false, "shorten the prompt"],
  ["too long, as new servers say it", 400, nested(newOverflow), "context-length", false, "shorten the prompt"],
  ["too long, as the engine says it", 400, nested(engineOverflow), "context-length", false, "maximum model length"],
  ["too long, said with 500", 500, detail(engineOverflow), "context-length", false, "shorten the prompt"],
  ["too long, in OpenAI's code", 400, nested("too long", "context_length_exceeded"), "context-length", false, ""],
  ["no API key", 401, JSON.stringify({ error: "Unauthorized" }), "unauthorized", false, "check the API key"],
  ["a wrong address", 404, detail("Not Found"), "bad-request", false, "check that the address is a vLLM server"],
  [
    "a model it does not serve",
    404,
    nested("The model `x` does not exist.", 404, "NotFoundError"),
    "bad-request",
    false,
    "the name under which the server serves the model",
  ],
  ["an id that still runs", 400, flat("Request id r already running."), "server-error", true, "already running"],
  ["a request timeout", 408, "", "timeout", true, "HTTP 408"],
  ["too many requests", 429, nested("slow down", 429), "overloaded", true, "slow down"],
  ["a crash, flat", 500, flat("boom", 500, "InternalServerError"), "server-error", true, "boom"],
  ["a crash, nested", 500, nested("EngineCore encountered an issue.", 500), "server-error", true, "EngineCore"],
  ["a crash nobody worded", 500, "Internal Server Error", "server-error", true, "Internal Server Error"],
  ["a proxy without a server", 502, "<html>Bad Gateway</html>", "server-error", true, "Bad Gateway"],
  ["a server that is asleep", 503, nested("The server is asleep.", 503), "overloaded", true, "asleep"],
  ["a proxy that waited too long", 504, "", "timeout", true, "HTTP 504"],
  ["a redirect", 307, "", "bad-reply", false, "give the address it redirects to"],
  ["no content", 204, "", "bad-reply", false, "HTTP 204"],
];

describe("createVllmEngine() gives every error of the server its code", () => {
  test.each(answers)("%s", async (_name, status, body, code, retryable, words) => {
    const answer = (): Response => new Response(status === 204 ? null : body, { status });
    for (const stream of [false, true]) {
      const error = await failureOf(engineOf(answer, { stream }).sample(request()));
      expect(error.failure).toMatchObject({ boundary: "engine", code, retryable });
      expect(error.message).toContain(words);
      expect(error.message).toMatch(/^Cannot sample from vLLM at http:\/\/server\/inference\/v1\/generate: .*\.$/);
    }
  });

  test.each([
    ["nested", nested("top_p must be in (0, 1], got 2."), "bad-request", false],
    ["flat", flat("boom", 500, "InternalServerError"), "server-error", true],
    ["too long", nested(newOverflow), "context-length", false],
    ["too long, in OpenAI's code", nested("too long", "context_length_exceeded"), "context-length", false],
    ["words alone", JSON.stringify({ error: "boom" }), "bad-request", false],
  ])("inside HTTP 200, in a body and in a stream: %s", async (_name, data, code, retryable) => {
    const whole = engineOf(() => new Response(data));
    const streamed = engineOf(() => new Response(`data: ${data}\n\ndata: [DONE]\n\n`), { stream: true });
    for (const engine of [whole, streamed]) {
      expect((await failureOf(engine.sample(request()))).failure).toMatchObject({ code, retryable });
    }
  });

  test("takes the wait that the server asks for, and quotes it without the key", async () => {
    const answer = (): Response =>
      new Response(nested(`bad key ${apiKey}`, 429), { status: 429, headers: { "retry-after": "1.5" } });
    const error = await failureOf(engineOf(answer).sample(request()));
    expect(error.retryAfterMs).toBe(1500);
    expect(error.message).toContain("bad key ***");
  });
});

test("vllmDialect.isContextOverflow() knows the texts of each layer, and no other refusal", () => {
  expect([oldOverflow, newOverflow, engineOverflow].every((words) => vllmDialect.isContextOverflow(words))).toBe(true);
  expect(vllmDialect.isContextOverflow("max_tokens must be at least 1, got 0.")).toBe(false);
});
