import { describe, expect, test } from "vitest";
import { sglangDialect } from "./sglang-engine.ts";
import { apiKey, failureOf, request } from "../../http/engine-calls.test-helper.ts";
import { engineOf } from "./sglang.test-helper.ts";

const nested = (message: string): string => JSON.stringify({ error: { message } });
const flat = (message: string, type: string, code: number): string =>
  JSON.stringify({ object: "error", message, type, param: null, code });

const tooLong = "The input (9 tokens) is longer than the model's context length (8 tokens).";
const tooMany =
  "Requested token count exceeds the model's maximum context length of 8 tokens. You requested a total of 9 tokens: 4 tokens from the input messages and 5 tokens for the completion. Please reduce the number of tokens in the input messages or the completion to fit within the limit.";
const scheduler =
  "Input length (9 tokens) exceeds the maximum allowed length (7 tokens). Use a shorter input or enable --allow-auto-truncate.";

/** Name, status, body, code, retryable, and text that the message must contain. */
const answers: readonly (readonly [string, number, string, string, boolean, string])[] = [
  [
    "a value out of range",
    400,
    nested("temperature must be non-negative, got -1.0."),
    "bad-request",
    false,
    "got -1.0.",
  ],
  ["a body of wrong types", 400, flat("bad", "Bad Request", 400), "bad-request", false, "bad"],
  ["OpenAI's flat shape", 400, flat("bad", "BadRequestError", 400), "bad-request", false, "bad"],
  ["FastAPI's own shape", 422, JSON.stringify({ detail: [{ msg: "bad" }] }), "bad-request", false, "msg"],
  ["a prompt too long", 400, nested(tooLong), "context-length", false, "shorten the prompt"],
  ["prompt and completion too long", 400, nested(tooMany), "context-length", false, "shorten the prompt"],
  ["a prompt too long for the scheduler", 400, nested(scheduler), "context-length", false, "allowed length"],
  ["a prompt too long, said with 500", 500, flat(tooLong, "InternalServerError", 500), "context-length", false, ""],
  ["no API key", 401, JSON.stringify({ error: "Unauthorized" }), "unauthorized", false, "check the API key"],
  ["a wrong API key", 403, JSON.stringify({ error: "Forbidden" }), "unauthorized", false, "check the API key"],
  ["a wrong address", 404, flat("Not Found", "Not Found", 404), "bad-request", false, "check that the address"],
  ["a request timeout", 408, "", "timeout", true, "HTTP 408"],
  ["too many requests", 429, JSON.stringify({ error: { message: "slow down" } }), "overloaded", true, "slow down"],
  ["a crash", 500, "Internal Server Error", "server-error", true, "an unknown name in sampling.extra"],
  ["a crash in OpenAI's shape", 500, flat("boom", "InternalServerError", 500), "server-error", true, "boom"],
  ["a proxy without a server", 502, "<html>Bad Gateway</html>", "server-error", true, "Bad Gateway"],
  ["a full queue", 503, flat("The request queue is full.", "503", 503), "overloaded", true, "queue is full"],
  [
    "a router without workers",
    503,
    JSON.stringify({
      error: { type: "Service Unavailable", code: "no_available_workers", message: "No available workers" },
    }),
    "unreachable",
    true,
    "No available workers",
  ],
  ["a proxy that waited too long", 504, "", "timeout", true, "HTTP 504"],
  ["a router's own second try", 400, nested("Duplicate request ID detected: r"), "server-error", true, "Duplicate"],
  [
    "a router whose worker died",
    500,
    JSON.stringify({
      error: {
        type: "Internal Server Error",
        code: "call_upstream_request_error",
        message: "error sending request for url (http://127.0.0.1:1/generate)",
      },
    }),
    "server-error",
    true,
    "call_upstream_request_error",
  ],
  [
    "a body that a router cannot read",
    422,
    "Failed to deserialize the JSON body into the target type: input_ids: data did not match any variant",
    "bad-request",
    false,
    "did not match",
  ],
  ["a redirect", 307, "", "bad-reply", false, "give the address it redirects to"],
  ["no content", 204, "", "bad-reply", false, "HTTP 204"],
];

describe("createSglangEngine() gives every error of the server its code", () => {
  test.each(answers)("%s", async (_name, status, body, code, retryable, words) => {
    const answer = (): Response => new Response(status === 204 ? null : body, { status });
    for (const stream of [false, true]) {
      const error = await failureOf(engineOf(answer, { stream }).sample(request()));
      expect(error.failure).toMatchObject({ boundary: "engine", code, retryable });
      expect(error.message).toContain(words);
      expect(error.message).toMatch(/^Cannot sample from SGLang at http:\/\/server\/generate: .*\.$/);
    }
  });

  test("takes the wait that the server asks for", async () => {
    const answer = (): Response => new Response("", { status: 429, headers: { "retry-after": "1.5" } });
    expect((await failureOf(engineOf(answer).sample(request()))).retryAfterMs).toBe(1500);
  });

  test("quotes the server without the key, without control over the terminal, and not without end", async () => {
    const words = `bad key ${apiKey}\u001b[2J\n${"x".repeat(10_000)}`;
    const error = await failureOf(engineOf(() => new Response(nested(words), { status: 400 })).sample(request()));
    expect(error.message).toContain("bad key ***");
    expect(error.message).not.toMatch(/\p{Cc}/u);
    expect(error.message.length).toBeLessThan(800);
  });

  test.each([
    ["a value out of range", nested("top_p must be in (0, 1], got 2."), "bad-request", false],
    ["a prompt too long", nested(tooLong), "context-length", false],
    ["a full queue without a status", nested("The request queue is full."), "overloaded", true],
    ["a status beside the words", JSON.stringify({ error: { message: "x", code: 500 } }), "server-error", true],
    ["words alone", JSON.stringify({ error: "boom" }), "bad-request", false],
  ])("inside an open stream: %s", async (_name, data, code, retryable) => {
    const answer = (): Response => new Response(`data: ${data}\n\ndata: [DONE]\n\n`);
    const error = await failureOf(engineOf(answer, { stream: true }).sample(request()));
    expect(error.failure).toMatchObject({ code, retryable });
  });
});

test("sglangDialect.isContextOverflow() knows the texts of server and scheduler, and nothing else", () => {
  expect([tooLong, tooMany, scheduler].every((words) => sglangDialect.isContextOverflow(words))).toBe(true);
  expect(sglangDialect.isContextOverflow("max_new_tokens must be at least 0, got -1.")).toBe(false);
});
