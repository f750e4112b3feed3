// The socket of a server: bound, guarded and closed. Not a router, and not what reads or answers requests: the rollout service has a
// framework for that, and the gateway answers by hand, because only its socket says whether a client has had the whole answer.

import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { ConfigurationError } from "../core/index.ts";
import { httpAddress, isFromThisMachine, isLoopback } from "../lib/address.ts";
import type { Duplex } from "node:stream";
import { systemClock } from "../lib/clock.ts";
import { Waiters } from "../lib/deadline.ts";

export type ListenOptions = {
  /** As messages call the server. */
  readonly what: "gateway" | "service" | "environment server" | "viewer";
  readonly host: string;
  /** 0 takes a free one. */
  readonly port: number;
  /** False: only programs of this machine are served. */
  readonly hasToken: boolean;
  /** Of a whole request, in milliseconds. */
  readonly requestTimeoutMs: number;
  /** Answers a request that must not be served, with status 403. */
  readonly forbid: (outgoing: ServerResponse, message: string) => void;
  /** Answers a request that comes while the server drains, with status 503. Default: it is served like any other. */
  readonly refuse?: (outgoing: ServerResponse, message: string) => void;
  /** Takes over the connection of a request for another protocol. Default: such requests are answered as others. */
  readonly upgrade?: (incoming: IncomingMessage, socket: Duplex, head: Buffer) => void;
};

export type Listener = {
  readonly url: string;
  /** Whether new requests are refused because the server is about to end. */
  readonly isDraining: boolean;
  /**
   * Answers requests in flight, and refuses new ones with 503; those of probes are still served. Resolves when nothing is in flight, or
   * the signal aborts.
   */
  drain(signal: AbortSignal): Promise<void>;
  /** Takes no further connections; what is in flight has a second. */
  close(): Promise<void>;
};

/** Where probes ask whether a server is alive, and whether it takes requests. */
export const probePaths: readonly string[] = ["/health", "/healthz", "/ready", "/readyz"];
/** When a client is to try again at a server that drains: another one may be there by then. */
const drainRetrySeconds = 5;

/** Longest wait of a closing server for answers in flight, and between two checks. */
const mostClosingMs = 1000;
const closingStepMs = 10;

/** Rejects with a `ConfigurationError` when the address is not available, or not safe without a token. */
export async function listen(
  serve: (incoming: IncomingMessage, outgoing: ServerResponse) => void,
  { what, host, port, hasToken, requestTimeoutMs, forbid, refuse, upgrade }: ListenOptions,
): Promise<Listener> {
  if (!hasToken && !isLoopback(host)) {
    throw new ConfigurationError(
      `Cannot serve on ${host} without a token: others on the network could use the ${what}; give it a token.`,
    );
  }
  const inFlight = new Set<ServerResponse>();
  const idle = new Waiters();
  let isDraining = false;
  const server = createServer((incoming, outgoing) => {
    const { host: named = null, origin = null } = incoming.headers;
    inFlight.add(outgoing);
    outgoing.on("close", () => {
      inFlight.delete(outgoing);
      if (inFlight.size === 0) idle.wake();
    });
    if (isDraining) {
      outgoing.shouldKeepAlive = false;
      if (refuse !== undefined && !probePaths.includes((incoming.url ?? "/").split("?", 1)[0]!)) {
        incoming.resume();
        outgoing.setHeader("retry-after", drainRetrySeconds);
        return refuse(outgoing, `Cannot serve the request: the ${what} is about to end; try again when it is back.`);
      }
    }
    if (hasToken || isFromThisMachine({ host: named, origin })) return serve(incoming, outgoing);
    forbid(
      outgoing,
      `Cannot serve the request: without a token only programs of this machine are served, under the name localhost, and no page of another server; give the ${what} a token.`,
    );
  });
  if (upgrade !== undefined) {
    server.on("upgrade", (incoming, socket, head) => {
      const { host: named = null, origin = null } = incoming.headers;
      if (hasToken || isFromThisMachine({ host: named, origin })) upgrade(incoming, socket, head);
      else socket.end("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    });
  }
  // A client that sends slowly holds a socket, not the server.
  server.headersTimeout = 10_000;
  server.requestTimeout = requestTimeoutMs;
  server.keepAliveTimeout = 30_000;
  try {
    server.listen(port, host);
    await once(server, "listening");
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    const state = code === "EADDRINUSE" ? "the port is taken" : message;
    throw new ConfigurationError(`Cannot serve on ${host}:${port}: ${state}; choose another port.`, { cause });
  }
  const { address, port: taken } = server.address() as AddressInfo;
  return {
    url: httpAddress(address, taken),
    get isDraining() {
      return isDraining;
    },
    drain: async (signal) => {
      isDraining = true;
      // A client that keeps its connection would send its next request to a server that is gone.
      for (const outgoing of inFlight) outgoing.shouldKeepAlive = false;
      while (inFlight.size > 0 && !signal.aborted) await idle.wait(signal).catch(() => undefined);
    },
    close: () => closeGracefully(server),
  };
}

/** Answers in flight are sent; idle connections and slow readers do not hold the server up. */
async function closeGracefully(server: Server): Promise<void> {
  const closed = new Promise<"closed">((resolve) => {
    server.close(() => resolve("closed"));
  });
  // Connections become idle a moment after their last answer was sent, and no event says when.
  for (let waited = 0; waited < mostClosingMs; waited += closingStepMs) {
    server.closeIdleConnections();
    if ((await Promise.race([closed, systemClock.sleep(closingStepMs)])) === "closed") return;
  }
  server.closeAllConnections();
  await closed;
}
