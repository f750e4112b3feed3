import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { deflateRawSync } from "node:zlib";
import { afterEach, expect, it } from "vitest";
import { type WebSocket, WebSocketServer } from "ws";
import { openSocket, parseBaseUrl, type SocketOptions } from "./index.ts";

/** Memory of this thread; the memory of the process includes that of other tests. */
function heldBytes(): number {
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

const cleanups: (() => unknown)[] = [];
afterEach(() => {
  for (const cleanup of cleanups.splice(0)) cleanup();
});

async function serve(onConnection: (socket: WebSocket) => void) {
  const server = new WebSocketServer({ port: 0, host: "127.0.0.1" });
  server.on("connection", (socket) => {
    socket.on("error", () => undefined);
    onConnection(socket);
  });
  await new Promise((resolve) => server.once("listening", resolve));
  cleanups.push(() => {
    for (const client of server.clients) client.terminate();
    server.close();
  });
  return server;
}

const baseOf = (port: number, authorization: string | null = null) =>
  parseBaseUrl(`http://127.0.0.1:${port}/a?api_key=1`, { what: "server", authorization });
const connect = (server: WebSocketServer, options: Partial<SocketOptions> = {}) =>
  openSocket(baseOf((server.address() as AddressInfo).port), "/ws", { boundary: "environment", ...options });

it("openSocket() says its path and credentials, and answers come in order", async () => {
  const heads: unknown[] = [];
  const server = await serve((socket) =>
    socket.on("message", (data) => socket.send(`re: ${(data as Buffer).toString()}`)),
  );
  server.on("connection", (_socket, { url, headers }) => heads.push([url, headers.authorization, headers["x-key"]]));
  const base = baseOf((server.address() as AddressInfo).port, "Basic bWU6c2VjcmV0");
  const socket = await openSocket(base, "/ws", { boundary: "environment", headers: { "x-key": "1" } });
  expect(await socket.ask("one")).toEqual({ text: "re: one", isAnswer: true });
  expect(await socket.ask("zwei ü")).toEqual({ text: "re: zwei ü", isAnswer: true });
  await socket.close();
  await socket.close();
  expect(heads).toEqual([["/a/ws?api_key=1", "Basic bWU6c2VjcmV0", "1"]]);
  await expect(socket.ask("three")).rejects.toMatchObject({ failure: { code: "connection-lost" } });
});

it("openSocket() hands on why a server closes, before it says that it is closed", async () => {
  const server = await serve((socket) => {
    socket.send("full");
    socket.close(1013, "later");
  });
  const socket = await connect(server);
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(await socket.ask("hello")).toEqual({ text: "full", isAnswer: false });
  await expect(socket.ask("hello")).rejects.toMatchObject({
    failure: { code: "connection-lost", retryable: true, message: expect.stringContaining("(1013: later)") as unknown },
  });
});

it("openSocket() asks for no compression, and takes no message that is compressed all the same", async () => {
  const packed = deflateRawSync(Buffer.alloc(50_000_000, "x"));
  const server = await serve((socket) => {
    const { _socket: raw } = socket as unknown as { readonly _socket: NodeJS.WritableStream };
    const head = Buffer.alloc(10);
    // The first byte of a complete text message, with the bit that marks it as compressed.
    head.writeUInt8(0xc1, 0);
    head.writeUInt8(127, 1);
    head.writeBigUInt64BE(BigInt(packed.length), 2);
    raw.write(Buffer.concat([head, packed]));
  });
  let asked: string | undefined;
  server.on("connection", (_socket, { headers }) => (asked = headers["sec-websocket-extensions"]));
  const before = heldBytes();
  const socket = await connect(server);
  await expect(socket.ask("hello")).rejects.toMatchObject({ failure: { code: "bad-reply" } });
  expect(asked).toBeUndefined();
  expect(heldBytes() - before).toBeLessThan(45_000_000);
});

it("openSocket() gives up on a server that does not answer a farewell", async () => {
  const server = await serve((socket) => {
    socket.close = () => undefined;
    socket.on("message", () => undefined);
  });
  const socket = await connect(server);
  await socket.close({ farewell: "bye", graceMs: 20 });
  await expect.poll(() => server.clients.size).toBe(0);
});

it("openSocket() tells an address without a WebSocket, one that never answers, and a cancellation apart", async () => {
  const server = await serve(() => undefined);
  const silent = createServer(() => undefined);
  await new Promise<void>((resolve) => {
    silent.listen(0, "127.0.0.1", resolve);
  });
  cleanups.push(() => silent.close());
  const { port } = silent.address() as AddressInfo;
  const late = openSocket(baseOf(port), "/ws", { boundary: "environment", connectTimeoutMs: 30 });
  await expect(late).rejects.toMatchObject({ failure: { code: "timeout", boundary: "environment" } });
  const controller = new AbortController();
  const cancelled = openSocket(baseOf(port), "/ws", { boundary: "environment", signal: controller.signal });
  controller.abort();
  await expect(cancelled).rejects.toMatchObject({ failure: { code: "cancelled" } });
  await expect(connect(server, { signal: controller.signal })).rejects.toMatchObject({
    failure: { code: "cancelled" },
  });
  server.close();
  const other = createServer((socket) => socket.end("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"));
  await new Promise<void>((resolve) => {
    other.listen(0, "127.0.0.1", resolve);
  });
  cleanups.push(() => other.close());
  const refused = openSocket(baseOf((other.address() as AddressInfo).port), "/ws", { boundary: "environment" });
  await expect(refused).rejects.toMatchObject({
    failure: { code: "bad-reply", message: expect.stringContaining("HTTP 403") as unknown },
  });
});
