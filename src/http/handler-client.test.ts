import { describe, expect, test } from "vitest";
import { AttributedError } from "../core/failure.ts";
import { createManualClock } from "../lib/clock.test-helper.ts";
import { parseBaseUrl } from "./base-url.ts";
import { createHandlerClient } from "./handler-client.test-helper.ts";
import type { HttpRequest } from "./http-client.ts";

const request: HttpRequest = {
  base: { ...parseBaseUrl("http://host/base", { what: "test server" }), authorization: "Basic YWRhOnNlc2FtZQ==" },
  method: "POST",
  path: "/x",
  headers: { "x-y": "z" },
  body: "ü",
};

async function codeOf(call: Promise<unknown>): Promise<string> {
  const error: unknown = await call.catch((reason: unknown) => reason);
  return error instanceof AttributedError ? error.failure.code : "not an attributed error";
}

/** Never answers; rejects with the abort reason of its request. */
function patient(asked: Request): Promise<Response> {
  return new Promise((_resolve, reject) => {
    asked.signal.addEventListener("abort", () => reject(asked.signal.reason as Error), { once: true });
  });
}

describe("createHandlerClient()", () => {
  test("hands over the whole request and gives the whole answer", async () => {
    const client = createHandlerClient(
      async (seen) => {
        const words = [seen.method, seen.url, seen.headers.get("authorization"), seen.headers.get("x-y")];
        return new Response(`${words.join(" ")} ${await seen.text()}`, {
          status: 201,
          headers: { "retry-after": "1" },
        });
      },
      { boundary: "user" },
    );
    const answer = await client.request(request);
    expect([answer.status, answer.headers["retry-after"]]).toEqual([201, "1"]);
    expect(answer.body.toString()).toBe(`POST http://host/base/x Basic ${btoa("ada:sesame")} z ü`);
  });

  test("a handler that throws, and a body that errors, are lost connections", async () => {
    const thrown = createHandlerClient(() => Promise.reject(new Error("boom")), { boundary: "user" });
    expect(await codeOf(thrown.request(request))).toBe("connection-lost");
    const torn = new ReadableStream({ pull: (controller) => controller.error(new Error("torn")) });
    const halfway = createHandlerClient(() => new Response(torn), { boundary: "user" });
    expect(await codeOf(halfway.request(request))).toBe("connection-lost");
  });

  test("deadline, signal and bound end a call with their codes", async () => {
    const clock = createManualClock();
    const client = createHandlerClient(patient, { boundary: "user", clock });
    const late = codeOf(client.request(request, { timeoutMs: 5 }));
    await clock.advance(5);
    expect(await late).toBe("timeout");
    const controller = new AbortController();
    const cancelled = codeOf(client.request(request, { signal: controller.signal, timeoutMs: 5 }));
    controller.abort();
    expect(await cancelled).toBe("cancelled");
    // The shared timer stays one turn of the event loop longer than its last call.
    await clock.advance(0);
    expect(clock.sleeping).toBe(0);
    const large = createHandlerClient(() => new Response("xxxx"), { boundary: "user" });
    expect(await codeOf(large.request(request, { maxBytes: 3 }))).toBe("bad-reply");
    await large.close();
    expect(await codeOf(large.request(request))).toBe("cancelled");
  });
});
