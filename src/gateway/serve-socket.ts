// Serves the gateway's requests and answers on a socket. It uses Node's own server without a
// framework: a repeated request is answered from the record only if the first answer did not reach
// its client completely, and only the socket knows that.

import type { IncomingMessage, ServerResponse } from "node:http";
import { BodyError, type Listener, listen, readBytes } from "../http/index.ts";
import type { GatewayHandler, GatewayHttpResponse } from "./gateway.ts";

export type SocketOptions = {
  readonly host: string;
  readonly port: number;
  /** False if only programs on this machine are served. */
  readonly hasToken: boolean;
  readonly maxBodyBytes: number;
};

/**
 * Serves a handler. Rejects with a `ConfigurationError` if the address is not available, or not
 * safe without a token.
 */
export function serveSocket(handler: GatewayHandler, { maxBodyBytes, ...address }: SocketOptions): Promise<Listener> {
  const serve = async (incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> => {
    const gone = new AbortController();
    outgoing.once("close", () => {
      if (!outgoing.writableFinished) gone.abort();
    });
    const { method = "GET", url = "/" } = incoming;
    // Node would keep only the first of several values.
    const headers = { ...incoming.headers, authorization: incoming.headersDistinct["authorization"] };
    const body = await readBytes(incoming, maxBodyBytes).catch((error: unknown) => {
      if (error instanceof BodyError) return error;
      throw error;
    });
    if (body instanceof BodyError) return refuse(outgoing, body.status, body.message);
    await send(outgoing, await handler.handle({ method, url, headers, body, signal: gone.signal }));
  };
  return listen((incoming, outgoing) => void serve(incoming, outgoing).catch(() => outgoing.destroy()), {
    ...address,
    what: "gateway",
    requestTimeoutMs: 60_000,
    forbid: (outgoing, message) => refuse(outgoing, 403, message),
  });
}

function refuse(outgoing: ServerResponse, status: number, message: string): void {
  const error = { message, type: "invalid_request_error", param: null, code: null };
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
  if (typeof body === "string") {
    // Content-length avoids chunked encoding: the body is sent together with the headers in one
    // write.
    outgoing.writeHead(status, { ...headers, "content-length": Buffer.byteLength(body) }).end(body);
    return;
  }
  outgoing.writeHead(status, headers);
  for await (const text of body) {
    // Sampling and recording continue even if the client no longer reads.
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
