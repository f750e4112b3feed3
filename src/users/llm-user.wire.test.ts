// A simulated user over real loopback sockets: the pool, the deadline and the retries work
// together.

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { says } from "../chat-models/fake-chat.test-helper.ts";
import { llmUser, type ModelUserOptions } from "./model-user.ts";
import { testTask } from "./test-task.test-helper.ts";

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) await cleanup();
});

/** A promise and the function that resolves it. */
function latch(): { readonly promise: Promise<void>; readonly open: () => void } {
  let open = (): void => {};
  const promise = new Promise<void>((resolve) => (open = resolve));
  return { promise, open: () => open() };
}

type Handler = (incoming: IncomingMessage, outgoing: ServerResponse) => void;

/** A server that uses its handlers in order and repeats the last one. */
async function serve(...handlers: readonly Handler[]): Promise<{ readonly url: string; readonly count: () => number }> {
  let count = 0;
  const server = createServer((incoming, outgoing) => {
    incoming.resume();
    incoming.on("end", () => handlers[Math.min(count++, handlers.length - 1)]?.(incoming, outgoing));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  cleanups.push(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, count: () => count };
}

const reply: Handler = (_incoming, outgoing) => {
  outgoing.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(says("hello").body));
};
const retry = { maxAttempts: 5, maxElapsedMs: 30_000, baseDelayMs: 1, maxDelayMs: 1 };

const open = (url: string, options: ModelUserOptions = {}) =>
  llmUser({ model: "m", url, retry, ...options })
    .create(testTask(), { seed: 1 })
    .open();

describe("llmUser() over the wire", () => {
  it("survives a 429, a lost connection, a server error and a broken body, and counts the calls", async () => {
    const server = await serve(
      (_incoming, outgoing) => outgoing.writeHead(429, { "retry-after": "0" }).end("slow down"),
      (incoming) => incoming.socket.destroy(),
      (_incoming, outgoing) => outgoing.writeHead(500).end(),
      (_incoming, outgoing) => outgoing.writeHead(200).end('{"choices": [{"mess'),
      reply,
    );
    const line = await open(server.url);
    expect(line).toMatchObject({ type: "utterance", text: "hello", usage: { modelCalls: 5, inputTokens: 10 } });
    expect(server.count()).toBe(5);
  });

  it("ends a silent call at its deadline and closes its connection", async () => {
    const closed = latch();
    const server = await serve((incoming) => void incoming.socket.on("close", () => closed.open()), reply);
    expect((await open(server.url, { timeoutMs: 500 })).usage.modelCalls).toBe(2);
    await closed.promise;
  });

  it("fails as unreachable when nobody listens, naming address and remedy", async () => {
    const failing = open("http://127.0.0.1:1", { retry: { ...retry, maxAttempts: 2 } });
    await expect(failing).rejects.toMatchObject({
      failure: { boundary: "user", code: "unreachable", retryable: true },
      message: expect.stringContaining("start the server or correct its address") as unknown,
    });
  });

  it("closes its connection when cancelled", async () => {
    const arrived = latch();
    const closed = latch();
    const server = await serve((incoming) => {
      incoming.socket.on("close", () => closed.open());
      arrived.open();
    });
    const controller = new AbortController();
    const user = llmUser({ model: "m", url: server.url }).create(testTask(), { seed: 1 });
    const failing = expect(user.open({ signal: controller.signal })).rejects.toMatchObject({
      failure: { boundary: "user", code: "cancelled" },
    });
    await arrived.promise;
    controller.abort(new Error("over"));
    await failing;
    await closed.promise;
  });
});
