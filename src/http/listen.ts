// The listening socket of a server: bound, guarded and closed. It neither routes nor answers
// requests: the rollout service uses a framework for that, and the gateway has its own code,
// because only its socket shows whether a client received the whole answer.

import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { ConfigurationError } from "../core/index.ts";
import { httpAddress, isFromThisMachine, isLoopback } from "../lib/address.ts";
import type { Duplex } from "node:stream";
import { systemClock } from "../lib/clock.ts";
import { Waiters } from "../lib/deadline.ts";

export type ListenOptions = {
  /** Name of the server in messages. */
  readonly what: "gateway" | "service" | "environment server" | "viewer";
  readonly host: string;
  /** 0 selects a free port. */
  readonly port: number;
  /** False if the server has no token; it then serves only programs on this machine. */
  readonly hasToken: boolean;
  /** Deadline in milliseconds for receiving a whole request. */
  readonly requestTimeoutMs: number;
  /** Answers a request that must not be served, with status 403. */
  readonly forbid: (outgoing: ServerResponse, message: string) => void;
  /**
   * Answers a request that arrives while the server drains, with status 503. Default: it is served
   * like any other.
   */
  readonly refuse?: (outgoing: ServerResponse, message: string) => void;
  /**
   * Takes over the connection of a request for another protocol. Default: such requests are
   * answered like any other.
   */
  readonly upgrade?: (incoming: IncomingMessage, socket: Duplex, head: Buffer) => void;
};

export type Listener = {
  readonly url: string;
  /** True if new requests are refused because the server is shutting down. */
  readonly isDraining: boolean;
  /**
   * Answers requests in flight, and refuses new ones with 503, except health probes. Resolves when
   * nothing is in flight, or the signal aborts.
   */
  drain(signal: AbortSignal): Promise<void>;
  /** Accepts no further connections; requests in flight get one more second. */
  close(): Promise<void>;
};

/** Paths of health and readiness probes. */
export const probePaths: readonly string[] = ["/health", "/healthz", "/ready", "/readyz"];
/**
 * Seconds after which a client should retry while the server drains: a replacement may be available
 * by then.
 */
const drainRetrySeconds = 5;

/**
 * Maximum time in milliseconds that a closing server waits for answers in flight, and the interval
 * between two checks.
 */
const mostClosingMs = 1000;
const closingStepMs = 10;

/** Rejects with a `ConfigurationError` if the address is unavailable, or not safe without a token. */
export async function listen(
  serve: (incoming: IncomingMessage, outgoing: ServerResponse) => void,
  { what, host, port, hasToken, requestTimeoutMs, forbid, refuse, upgrade }: ListenOptions,
): Promise<Listener> {
  if (!hasToken && !isLoopback(host)) {
    throw new ConfigurationError(
      `Cannot serve on ${host} without a token: others on the network could use the ${what}; set a token.`,
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
        return refuse(outgoing, `Cannot serve the request: the ${what} is shutting down; try again once it is back.`);
      }
    }
    if (hasToken || isFromThisMachine({ host: named, origin })) return serve(incoming, outgoing);
    forbid(
      outgoing,
      `Cannot serve the request: without a token only programs of this machine are served, under the name localhost, and no page of another server; set a token for the ${what}.`,
    );
  });
  if (upgrade !== undefined) {
    server.on("upgrade", (incoming, socket, head) => {
      const { host: named = null, origin = null } = incoming.headers;
      if (hasToken || isFromThisMachine({ host: named, origin })) upgrade(incoming, socket, head);
      else socket.end("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    });
  }
  // A client that sends slowly must not hold a connection forever.
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
      // A client that reuses its connection would send its next request to a server that has shut
      // down.
      for (const outgoing of inFlight) outgoing.shouldKeepAlive = false;
      while (inFlight.size > 0 && !signal.aborted) await idle.wait(signal).catch(() => undefined);
    },
    close: () => closeGracefully(server),
  };
}

/** Answers in flight are completed; idle connections and slow readers do not delay the shutdown. */
async function closeGracefully(server: Server): Promise<void> {
  const closed = new Promise<"closed">((resolve) => {
    server.close(() => resolve("closed"));
  });
  // Connections become idle a moment after their last answer was sent, without an event.
  for (let waited = 0; waited < mostClosingMs; waited += closingStepMs) {
    server.closeIdleConnections();
    if ((await Promise.race([closed, systemClock.sleep(closingStepMs)])) === "closed") return;
  }
  server.closeAllConnections();
  await closed;
}
