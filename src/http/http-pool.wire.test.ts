// The pool over real loopback sockets, because its guarantees are about sockets.

import { createServer as createHttpServer, type RequestListener } from "node:http";
import { createServer as createRawServer, type Server, type Socket } from "node:net";
import { inspect } from "node:util";
import { afterEach, describe, expect, test } from "vitest";
import { AttributedError } from "../core/failure.ts";
import { parseBaseUrl } from "./base-url.ts";
import type { HttpClient, HttpRequest } from "./http-client.ts";
import { createManualClock } from "../lib/clock.test-helper.ts";
import { createHttpPool } from "./http-pool.ts";

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

/** A promise that the test resolves itself. */
function signalled(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let resolve!: () => void;
  const promise = new Promise<void>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}

async function listen(server: Server, sockets: Set<Socket>): Promise<string> {
  server.on("connection", (socket: Socket) => sockets.add(socket));
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  cleanups.push(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => {
      server.close(resolve);
    });
  });
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("The server has no port.");
  return `http://127.0.0.1:${address.port}`;
}

const serve = (listener: RequestListener, sockets = new Set<Socket>()): Promise<string> =>
  listen(createHttpServer(listener), sockets);

const serveRaw = (onData: (socket: Socket) => void): Promise<string> =>
  listen(
    createRawServer((socket) => socket.on("error", () => undefined).once("data", () => onData(socket))),
    new Set(),
  );

function open(connections = 8): HttpClient {
  const pool = createHttpPool({ boundary: "engine", connections });
  cleanups.push(() => pool.close());
  return pool;
}

function post(url: string, body = "{}"): HttpRequest {
  return {
    base: parseBaseUrl(url, { what: "test server" }),
    method: "POST",
    path: "/x",
    headers: { authorization: "Bearer open-sesame" },
    body,
  };
}

async function failureOf(call: Promise<unknown>): Promise<AttributedError> {
  const error = await call.then(
    () => new Error("The call did not fail."),
    (reason: unknown) => reason,
  );
  if (!(error instanceof AttributedError)) throw error;
  expect(error.failure.boundary).toBe("engine");
  expect(inspect(error, { depth: 12 })).not.toContain("open-sesame");
  return error;
}

describe("createHttpPool()", () => {
  test("gives status, headers and body of any status, and sends what it was given", async () => {
    const url = await serve((incoming, outgoing) => {
      incoming.setEncoding("utf8");
      let text = "";
      incoming.on("data", (chunk: string) => (text += chunk));
      incoming.on("end", () => {
        outgoing.writeHead(418, { "x-echo": incoming.url ?? "", "retry-after": "2" });
        outgoing.end(`${incoming.method} ${incoming.headers.authorization} ${text}`);
      });
    });
    const answer = await open().request(post(`${url}/base`, "ünicode"));
    expect(answer.status).toBe(418);
    expect(answer.headers["x-echo"]).toBe("/base/x");
    expect(answer.body.toString()).toBe("POST Bearer open-sesame ünicode");
  });

  test("sends the header and the query of an address with every request, and shows neither's secrets", async () => {
    const url = await serve(
      (incoming, outgoing) => void outgoing.end(`${incoming.url} ${incoming.headers.authorization}`),
    );
    const authorization = `Basic ${btoa("ada:open-sesame")}`;
    const at = (address: string, path: string): HttpRequest => ({
      ...post(address),
      base: parseBaseUrl(`${address}/v1?api_key=open-sesame`, { what: "test server", authorization }),
      path,
      headers: {},
    });
    expect((await open().request(at(url, "/x"))).body.toString()).toBe(`/v1/x?api_key=open-sesame ${authorization}`);
    expect((await open().request(at(url, "/x?a=1"))).body.toString()).toBe(
      `/v1/x?a=1&api_key=open-sesame ${authorization}`,
    );
    const { failure } = await failureOf(open().request(at("http://127.0.0.1:1", "/x?token=open-sesame")));
    expect(failure).toMatchObject({ code: "unreachable", message: expect.not.stringContaining("sesame") as unknown });
    expect(failure.message).toContain("http://127.0.0.1:1/v1/x?token=***");
  });

  test("attributes a refused connection as unreachable, with the remedy", async () => {
    const error = await failureOf(open().request(post("http://127.0.0.1:1")));
    expect(error.failure).toMatchObject({ code: "unreachable", retryable: true });
    expect(error.message).toBe(
      "Cannot reach http://127.0.0.1:1/x: the connection was refused (ECONNREFUSED); start the server or correct its address.",
    );
  });

  test.each([
    ["before the answer", "", "connection-lost", true],
    ["in a body of known length", "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf", "connection-lost", true],
    [
      "in a chunked body",
      "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n",
      "connection-lost",
      true,
    ],
    ["with something that is not HTTP", "SSH-2.0-OpenSSH_9.0\r\n", "bad-reply", true],
  ])("attributes a connection that ends %s", async (_name, bytes, code, retryable) => {
    const url = await serveRaw((socket) => socket.end(bytes));
    expect((await failureOf(open().request(post(url)))).failure).toMatchObject({ code, retryable });
  });

  test("refuses an answer above the bound, announced or not, and goes on working", async () => {
    const url = await serve((_incoming, outgoing) => {
      outgoing.write("x".repeat(600));
      outgoing.end("x".repeat(600));
    });
    const pool = open(1);
    const error = await failureOf(pool.request(post(url), { maxBytes: 1000 }));
    expect(error.failure).toMatchObject({ code: "bad-reply", retryable: false });
    expect(error.message).toContain("larger than 1000 bytes");
    expect((await pool.request(post(url), { maxBytes: 1200 })).body).toHaveLength(1200);
  });

  test("an answer may take longer than its head, which has a deadline of its own", async () => {
    const clock = createManualClock();
    const pool = createHttpPool({ boundary: "engine", clock });
    cleanups.push(() => pool.close());
    const [arrived, rest] = [signalled(), signalled()];
    const url = await serve((_incoming, outgoing) => {
      outgoing.writeHead(200).write("a");
      void rest.promise.then(() => outgoing.end("b"));
    });
    const answer = await pool.stream(post(url), { firstByteTimeoutMs: 50, timeoutMs: 5000 });
    await clock.advance(1000);
    rest.resolve();
    const chunks: Uint8Array[] = [];
    for await (const chunk of answer.chunks) chunks.push(chunk);
    expect(Buffer.concat(chunks).toString()).toBe("ab");

    const silent = await serve(() => arrived.resolve());
    const limits = { firstByteTimeoutMs: 20 };
    const calls = [pool.request(post(silent), limits), pool.stream(post(silent), limits)].map(failureOf);
    await arrived.promise;
    await clock.advance(20);
    for (const error of await Promise.all(calls)) {
      expect(error.failure).toMatchObject({ code: "timeout", retryable: true });
      expect(error.message).toContain("no answer began within 20 ms");
    }
  });

  test("a deadline ends a silent call with code timeout and closes its connection", async () => {
    const [arrived, closed] = [signalled(), signalled()];
    const url = await serve((incoming) => {
      incoming.socket.on("close", () => closed.resolve());
      arrived.resolve();
    });
    const clock = createManualClock();
    const pool = createHttpPool({ boundary: "engine", clock });
    const failed = failureOf(pool.request(post(url), { timeoutMs: 20 }));
    await arrived.promise;
    await clock.advance(20);
    const error = await failed;
    expect(error.failure).toMatchObject({ code: "timeout", retryable: true });
    expect(error.message).toContain("within 20 ms");
    await closed.promise;
    await pool.close();
  });

  test("a signal ends a call with code cancelled, also while it waits for a connection", async () => {
    const arrived = signalled();
    let requests = 0;
    const url = await serve(() => {
      requests += 1;
      arrived.resolve();
    });
    const pool = open(1);
    const [first, second] = [new AbortController(), new AbortController()];
    const running = failureOf(pool.request(post(url), { signal: first.signal }));
    await arrived.promise;
    const waiting = failureOf(pool.request(post(url), { signal: second.signal }));
    second.abort();
    expect((await waiting).failure).toMatchObject({ code: "cancelled", retryable: false });
    first.abort();
    expect((await running).failure.code).toBe("cancelled");
    expect(requests).toBe(1);
  });

  test("a signal that is already aborted sends nothing", async () => {
    const error = await failureOf(open().request(post("http://127.0.0.1:1"), { signal: AbortSignal.abort() }));
    expect(error.failure.code).toBe("cancelled");
  });

  test("close() ends running calls with code cancelled and refuses later ones", async () => {
    const arrived = signalled();
    const url = await serve(() => arrived.resolve());
    const pool = open();
    const running = failureOf(pool.request(post(url)));
    await arrived.promise;
    await pool.close();
    expect((await running).failure.code).toBe("cancelled");
    expect((await failureOf(pool.request(post(url)))).failure.code).toBe("cancelled");
    await pool.close();
  });

  test("calls share the bounded connections", async () => {
    const sockets = new Set<Socket>();
    const url = await serve((_incoming, outgoing) => void outgoing.end("ok"), sockets);
    const pool = open(3);
    await Promise.all(Array.from({ length: 40 }, () => pool.request(post(url))));
    expect(sockets.size).toBeLessThanOrEqual(3);
  });

  test("calls one after the other share one connection, however many there may be", async () => {
    const sockets = new Set<Socket>();
    const url = await serve((_incoming, outgoing) => void outgoing.end("ok"), sockets);
    const pool = open(64);
    await Promise.all(Array.from({ length: 4 }, () => pool.request(post(url))));
    for (let call = 0; call < 40; call++) await pool.request(post(url));
    expect(sockets.size).toBe(4);
  });

  test("a connection serves whoever waits for it, whatever became of the calls before", async () => {
    const arrived = signalled();
    const url = await serve((incoming, outgoing) => {
      if (incoming.url === "/cut") incoming.socket.destroy();
      else if (incoming.url === "/ok") outgoing.end("ok");
      else arrived.resolve();
    });
    const refused = "http://127.0.0.1:1";
    const pool = open(1);
    const call = (address: string, path: string, signal?: AbortSignal): Promise<string> =>
      pool.request({ ...post(address), path }, { signal }).then(
        ({ body }) => body.toString(),
        (error: unknown) => (error instanceof AttributedError ? error.failure.code : String(error)),
      );
    for (let round = 0; round < 3; round++) expect(await call(refused, "/x")).toBe("unreachable");
    const controller = new AbortController();
    const running = call(url, "/never", controller.signal);
    await arrived.promise;
    // These calls end before they get a connection.
    const cancelled = Array.from({ length: 500 }, () => call(url, "/ok", controller.signal));
    const waiting = ["/cut", "/ok", "/cut", "/cut", "/ok"].map((path) => call(url, path));
    controller.abort();
    expect(new Set(await Promise.all([running, ...cancelled]))).toEqual(new Set(["cancelled"]));
    const [lost, ok] = ["connection-lost", "ok"];
    expect(await Promise.all(waiting)).toEqual([lost, ok, lost, lost, ok]);
  });

  test("close() ends those that wait for a connection too", async () => {
    const arrived = signalled();
    const url = await serve(() => arrived.resolve());
    const pool = open(1);
    const calls = Array.from({ length: 5 }, () => failureOf(pool.request(post(url))));
    await arrived.promise;
    await pool.close();
    for (const error of await Promise.all(calls)) expect(error.failure.code).toBe("cancelled");
  });
});

describe("createHttpPool().stream()", () => {
  test("gives chunks as they come", async () => {
    const url = await serve((_incoming, outgoing) => {
      outgoing.write("one ");
      outgoing.end("two");
    });
    const stream = await open().stream(post(url));
    let text = "";
    for await (const chunk of stream.chunks) text += Buffer.from(chunk).toString();
    expect(text).toBe("one two");
  });

  test("a connection lost between chunks rejects the reading, even when it is lost before the first read", async () => {
    const closed = signalled();
    const url = await serveRaw((socket) => {
      socket.on("close", () => closed.resolve());
      socket.end("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n");
    });
    const stream = await open().stream(post(url));
    await closed.promise;
    const reading = async (): Promise<void> => {
      for await (const chunk of stream.chunks) expect(chunk.length).toBeGreaterThan(0);
    };
    expect((await failureOf(reading())).failure.code).toBe("connection-lost");
  });

  /** A stream whose server has written one chunk and then waits for its connection to close. */
  async function openBegun(options: { readonly timeoutMs?: number; readonly signal?: AbortSignal } = {}) {
    const closed = signalled();
    const url = await serve((incoming, outgoing) => {
      incoming.socket.on("close", closed.resolve);
      outgoing.write("begun");
    });
    const stream = await open().stream(post(url), options);
    const read = async (onChunk: () => "break" | "go on"): Promise<void> => {
      for await (const chunk of stream.chunks) {
        expect(Buffer.from(chunk).toString()).toBe("begun");
        if (onChunk() === "break") break;
      }
    };
    return { stream, read, closed };
  }

  test("cancelling and leaving the loop close the connection", async () => {
    const unread = await openBegun();
    unread.stream.cancel();
    await unread.closed.promise;
    const left = await openBegun();
    await left.read(() => "break");
    await left.closed.promise;
  });

  test("a deadline and a signal reject the reading and close the connection", async () => {
    const late = await openBegun({ timeoutMs: 400 });
    expect((await failureOf(late.read(() => "go on"))).failure.code).toBe("timeout");
    await late.closed.promise;
    const controller = new AbortController();
    const cancelled = await openBegun({ signal: controller.signal });
    const reading = cancelled.read(() => {
      controller.abort();
      return "go on";
    });
    expect((await failureOf(reading)).failure.code).toBe("cancelled");
    await cancelled.closed.promise;
  });
});

test("createHttpPool() refuses bounds that make no sense", () => {
  expect(() => createHttpPool({ boundary: "engine", connections: 0 })).toThrow(
    "connections is 0, expected an integer from 1 to 65535",
  );
});
