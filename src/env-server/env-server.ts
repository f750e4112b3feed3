// The server of an environment: its socket, its tokens, and the protocol of each path. Each
// protocol is a face: it turns a request into an answer, using the episodes of the shared host.

import type { IncomingMessage, ServerResponse } from "node:http";
import { timingSafeEqual } from "node:crypto";
import { messageOf } from "../core/failure.ts";
import { acceptedEncodings, BodyError, type Listener, listen, readBytes, unpackBody } from "../http/index.ts";
import { EpisodeHost, type HostCounts, type HostOptions, checkUser } from "./episode-host.ts";
import { type FaceAnswer, type FaceRequest, McpFace } from "./mcp-face.ts";
import { OpenEnvFace } from "./openenv-face.ts";
import { requestAddress } from "../lib/address.ts";

export type EnvServerOptions = HostOptions & {
  readonly host: string;
  /** Port to listen on; 0 picks a free one. */
  readonly port: number;
  /** Bearer token of clients with full access; `null` if no client needs one. */
  readonly token: string | null;
  /**
   * Bearer token of agents, which receive the tools of their episodes and a reward, but nothing of
   * the private extension. Without either token only programs on this machine are served, and all
   * of them have full access.
   * @default no such token
   */
  readonly agentToken?: string | null;
  /** Version of this package, as the server reports it to clients. */
  readonly version: string;
  /** Removes secrets from errors for clients. */
  readonly redact: (text: string) => string;
};

export type EnvServer = {
  /** Base URL; the paths of protocols are below it: `/mcp`. */
  readonly url: string;
  sessions(): HostCounts;
  /** Stops the server and closes open episodes. */
  close(): Promise<void>;
};

const mostBodyBytes = 4_000_000;

/**
 * Starts a server. Rejects with a `ConfigurationError` if the address is not available or the user
 * cannot take the tasks.
 */
export async function createEnvServer(options: EnvServerOptions): Promise<EnvServer> {
  checkUser(options);
  const { host, port, token, agentToken = null, version, redact } = options;
  const episodes = new EpisodeHost(options);
  const mcp = new McpFace(episodes, { version, redact });
  const openEnv = new OpenEnvFace(episodes, { version, redact });
  const { WebSocketServer } = await import("ws");
  const sockets = new WebSocketServer({ noServer: true, maxPayload: mostBodyBytes, perMessageDeflate: false });
  const answer = async (request: FaceRequest): Promise<FaceAnswer> => {
    const { pathname } = request.url;
    if (pathname === "/mcp") return (await openEnv.rpc(request)) ?? mcp.handle(request);
    if (pathname === "/health" || pathname === "/healthz")
      return { status: 200, headers: {}, body: { status: "healthy" } };
    const nothing = `There is nothing at ${pathname.slice(0, 100)}; MCP is at /mcp, OpenEnv at /ws.`;
    return (await openEnv.handle(request)) ?? { status: 404, headers: {}, body: { error: nothing } };
  };
  const hasToken = token !== null || agentToken !== null;
  const trustOf = (incoming: IncomingMessage): Trust => {
    const { authorization } = incoming.headers;
    if (!hasToken || isToken(authorization, token)) return "all";
    return isToken(authorization, agentToken) ? "agent" : "none";
  };
  const listener: Listener = await listen((incoming, outgoing) => void serve(incoming, outgoing, { trustOf, answer }), {
    what: "environment server",
    host,
    port,
    hasToken,
    requestTimeoutMs: 60_000,
    forbid: (outgoing, message) => send(outgoing, { status: 403, headers: {}, body: { error: message } }),
    upgrade: (incoming, socket, head) => {
      socket.on("error", () => socket.destroy());
      const trust = trustOf(incoming);
      // Not parsed as a URL: some paths are invalid URLs ("//"), and no code here would catch that
      // error.
      const pathname = (incoming.url ?? "/").split("?", 1)[0];
      const sessionId = new URLSearchParams((incoming.url ?? "").split("?", 2)[1] ?? "").get("session_id");
      const status = trust === "none" ? "401 Unauthorized" : pathname === "/ws" ? null : "404 Not Found";
      const served = { sessionId, isTrusted: trust === "all" };
      if (status === null) sockets.handleUpgrade(incoming, socket, head, (opened) => openEnv.serve(opened, served));
      else socket.end(`HTTP/1.1 ${status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`);
    },
  });
  return {
    url: listener.url,
    sessions: () => episodes.counts,
    close: async () => {
      await mcp.close();
      await openEnv.close();
      await episodes.close();
      await listener.close();
    },
  };
}

/** Access that the bearer token of a request grants. */
type Trust = "all" | "agent" | "none";

async function serve(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  {
    trustOf,
    answer,
  }: {
    readonly trustOf: (incoming: IncomingMessage) => Trust;
    readonly answer: (request: FaceRequest) => Promise<FaceAnswer>;
  },
): Promise<void> {
  try {
    const trust = trustOf(incoming);
    // Checked before the body is read.
    if (trust === "none") {
      const headers = { "www-authenticate": "Bearer", connection: "close" };
      return send(outgoing, { status: 401, headers, body: { error: "The bearer token is wrong." } });
    }
    const packed = await readBytes(incoming, mostBodyBytes);
    const body = (await unpackBody(packed, incoming.headers["content-encoding"], mostBodyBytes)).toString("utf8");
    const headers = Object.fromEntries(
      Object.entries(incoming.headers).map(([name, value]) => [name, Array.isArray(value) ? value.join(", ") : value]),
    );
    const target = incoming.url ?? "/";
    const url = requestAddress(target);
    if (url === null) return send(outgoing, { status: 400, headers: {}, body: { error: "The path is not a valid URL." } }); // prettier-ignore
    const { method = "GET" } = incoming;
    send(outgoing, await answer({ method, url, headers, body, isTrusted: trust === "all" }));
  } catch (error) {
    if (error instanceof BodyError) {
      const headers = {
        connection: "close",
        ...(error.status === 415 ? { "accept-encoding": acceptedEncodings } : {}),
      };
      return send(outgoing, { status: error.status, headers, body: { error: error.message } });
    }
    // Either the client has disconnected, or this is a bug.
    if (!outgoing.headersSent) send(outgoing, { status: 500, headers: {}, body: { error: messageOf(error) } });
  }
}

function send(outgoing: ServerResponse, { status, headers, body }: FaceAnswer): void {
  const text = body === null ? "" : JSON.stringify(body);
  const type = body === null ? {} : { "content-type": "application/json" };
  outgoing.writeHead(status, { ...type, ...headers, "content-length": Buffer.byteLength(text) });
  outgoing.end(text);
}

/** Compares in constant time. */
function isToken(header: string | undefined, token: string | null): boolean {
  if (token === null) return false;
  const [given, expected] = [Buffer.from(header ?? ""), Buffer.from(`Bearer ${token}`)];
  return given.length === expected.length && timingSafeEqual(given, expected);
}
