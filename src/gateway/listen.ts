// The gateway on a socket. Node's own server and no framework: whether an answer has reached its client whole decides whether a
// repeated request is answered from the record, and only the socket says so.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { ConfigurationError } from "../core/index.ts";
import { httpAddress, isFromThisMachine, isLoopback } from "../lib/address.ts";
import { systemClock } from "../lib/clock.ts";
import type { GatewayHandler, GatewayHttpResponse } from "./gateway.ts";

export type ListenOptions = {
  readonly host: string;
  readonly port: number;
  /** False: only programs of this machine are served. */
  readonly hasToken: boolean;
  readonly maxBodyBytes: number;
};

/** Longest wait of a closing gateway for answers in flight. */
const mostClosingMs = 1000;

/** Rejects with a `ConfigurationError` when the address is not available, or not safe without a token. */
export async function listen(
  handler: GatewayHandler,
  { host, port, hasToken, maxBodyBytes }: ListenOptions,
): Promise<{ readonly url: string; close(): Promise<void> }> {
  if (!hasToken && !isLoopback(host)) {
    throw new ConfigurationError(
      `Cannot serve on ${host} without a token: others on the network could use the gateway; give it a token.`,
    );
  }
  const server = createServer((incoming, outgoing) => {
    void serve(incoming, outgoing).catch(() => outgoing.destroy());
  });
  const serve = async (incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> => {
    const { headers, method = "GET", url = "/" } = incoming;
    const own = new Headers([
      ["host", headers.host ?? ""],
      ...(headers.origin === undefined ? [] : [["origin", headers.origin] as [string, string]]),
    ]);
    if (!hasToken && !isFromThisMachine(own))
      return refuse(outgoing, 403, "only programs of this machine are served without a token");
    const body = await readBytes(incoming, maxBodyBytes);
    if (body === null) return refuse(outgoing, 413, `the body has more than ${maxBodyBytes} bytes`);
    await send(outgoing, await handler.handle({ method, url, headers, body }));
  };
  server.headersTimeout = 10_000;
  server.requestTimeout = 60_000;
  server.keepAliveTimeout = 30_000;
  await new Promise<void>((resolve, reject) => {
    server.once("error", (cause: NodeJS.ErrnoException) => {
      const state = cause.code === "EADDRINUSE" ? "the port is taken" : cause.message;
      reject(new ConfigurationError(`Cannot serve on ${host}:${port}: ${state}; choose another port.`, { cause }));
    });
    server.listen(port, host, resolve);
  });
  const { port: taken } = server.address() as AddressInfo;
  return { url: httpAddress(host, taken), close: () => closeServer(server) };
}

function refuse(outgoing: ServerResponse, status: number, reason: string): void {
  const error = {
    message: `Cannot serve the request: ${reason}.`,
    type: "invalid_request_error",
    param: null,
    code: null,
  };
  outgoing
    .writeHead(status, { "content-type": "application/json", connection: "close" })
    .end(JSON.stringify({ error }));
}

async function send(
  outgoing: ServerResponse,
  { status, headers, body, delivered }: GatewayHttpResponse,
): Promise<void> {
  outgoing.on("close", () => {
    if (outgoing.writableFinished) delivered?.();
  });
  if (outgoing.destroyed) return;
  outgoing.writeHead(status, headers);
  if (typeof body === "string") return void outgoing.end(body);
  for await (const text of body) {
    // What the client does not read any more is still sampled and recorded.
    if (outgoing.destroyed) return;
    if (text !== "" && !outgoing.write(text)) await drained(outgoing);
  }
  outgoing.end();
}

function drained(outgoing: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      outgoing.off("drain", done);
      outgoing.off("close", done);
      resolve();
    };
    outgoing.on("drain", done);
    outgoing.on("close", done);
  });
}

/** `null`: there are too many. */
async function readBytes(incoming: IncomingMessage, most: number): Promise<Buffer | null> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of incoming as AsyncIterable<Buffer>) {
    size += part.length;
    if (size > most) return null;
    parts.push(part);
  }
  return parts.length === 1 ? parts[0]! : Buffer.concat(parts);
}

async function closeServer(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => void server.close(() => resolve()));
  server.closeIdleConnections();
  await Promise.race([closed, systemClock.sleep(mostClosingMs)]);
  server.closeAllConnections();
  await closed;
}
