// The server of an environment: its socket, its token, and which protocol a path speaks. A protocol is a face: a request in, an
// answer out, episodes from the one host.

import type { IncomingMessage, ServerResponse } from "node:http";
import { timingSafeEqual } from "node:crypto";
import { messageOf } from "../core/failure.ts";
import { type Listener, listen } from "../http/index.ts";
import { EpisodeHost, type HostCounts, type HostOptions, checkUser } from "./episode-host.ts";
import { type FaceAnswer, type FaceRequest, McpFace } from "./mcp-face.ts";
import { OpenEnvFace } from "./openenv-face.ts";

export type EnvServerOptions = HostOptions & {
  readonly host: string;
  /** 0 takes a free one. */
  readonly port: number;
  /** Expected as a bearer token; `null`: only programs of this machine are served. */
  readonly token: string | null;
  /** Of this package, as the server introduces itself. */
  readonly version: string;
  /** Takes secrets out of what clients are told of faults. */
  readonly redact: (text: string) => string;
};

export type EnvServer = {
  /** Protocols are at paths below it: `/mcp`. */
  readonly url: string;
  sessions(): HostCounts;
  /** Open episodes are closed. */
  close(): Promise<void>;
};

const mostBodyBytes = 4_000_000;
/** What paths are read against. */
const base = "http://server.invalid";

/** Rejects with a `ConfigurationError` when the address is not available or the user cannot take the tasks. */
export async function createEnvServer(options: EnvServerOptions): Promise<EnvServer> {
  checkUser(options);
  const { host, port, token, version, redact } = options;
  const episodes = new EpisodeHost(options);
  const mcp = new McpFace(episodes, { version, redact });
  const openEnv = new OpenEnvFace(episodes, { version, redact });
  const { WebSocketServer } = await import("ws");
  const sockets = new WebSocketServer({ noServer: true, maxPayload: mostBodyBytes, perMessageDeflate: false });
  const answer = async (request: FaceRequest): Promise<FaceAnswer> => {
    const { pathname } = request.url;
    if (pathname === "/mcp") return (await openEnv.rpc(request)) ?? mcp.handle(request);
    if (pathname === "/health") return { status: 200, headers: {}, body: { status: "healthy" } };
    const nothing = `There is nothing at ${pathname.slice(0, 100)}; MCP is at /mcp, OpenEnv at /ws.`;
    return (await openEnv.handle(request)) ?? { status: 404, headers: {}, body: { error: nothing } };
  };
  const listener: Listener = await listen((incoming, outgoing) => void serve(incoming, outgoing, { token, answer }), {
    ...{ what: "environment server", host, port, hasToken: token !== null, requestTimeoutMs: 60_000 },
    forbid: (outgoing, message) => send(outgoing, { status: 403, headers: {}, body: { error: message } }),
    upgrade: (incoming, socket, head) => {
      socket.on("error", () => socket.destroy());
      const isAllowed = token === null || isToken(incoming.headers.authorization, token);
      // Not parsed as an address: there are paths that are none ("//"), and nobody here would catch that.
      const pathname = (incoming.url ?? "/").split("?", 1)[0];
      const sessionId = new URLSearchParams((incoming.url ?? "").split("?", 2)[1] ?? "").get("session_id");
      const status = isAllowed ? (pathname === "/ws" ? null : "404 Not Found") : "401 Unauthorized";
      if (status === null)
        sockets.handleUpgrade(incoming, socket, head, (opened) => openEnv.serve(opened, { sessionId }));
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

async function serve(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  { token, answer }: { readonly token: string | null; readonly answer: (request: FaceRequest) => Promise<FaceAnswer> },
): Promise<void> {
  try {
    // Before its body is read.
    if (token !== null && !isToken(incoming.headers.authorization, token)) {
      const headers = { "www-authenticate": "Bearer", connection: "close" };
      return send(outgoing, { status: 401, headers, body: { error: "The bearer token is another." } });
    }
    const body = await readBody(incoming);
    if (body === null) {
      const error = `At most ${mostBodyBytes} bytes are read.`;
      return send(outgoing, { status: 413, headers: { connection: "close" }, body: { error } });
    }
    const headers = Object.fromEntries(
      Object.entries(incoming.headers).map(([name, value]) => [name, Array.isArray(value) ? value.join(", ") : value]),
    );
    const target = incoming.url ?? "/";
    if (!URL.canParse(target, base)) return send(outgoing, { status: 400, headers: {}, body: { error: "The path is no address." } }); // prettier-ignore
    const url = new URL(target, base);
    send(outgoing, await answer({ method: incoming.method ?? "GET", url, headers, body }));
  } catch (error) {
    // The client has gone, or a mistake of ours.
    if (!outgoing.headersSent) send(outgoing, { status: 500, headers: {}, body: { error: messageOf(error) } });
  }
}

/** `null`: it is too long. */
async function readBody(incoming: IncomingMessage): Promise<string | null> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of incoming as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > mostBodyBytes) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function send(outgoing: ServerResponse, { status, headers, body }: FaceAnswer): void {
  const text = body === null ? "" : JSON.stringify(body);
  const type = body === null ? {} : { "content-type": "application/json" };
  outgoing.writeHead(status, { ...type, ...headers, "content-length": Buffer.byteLength(text) });
  outgoing.end(text);
}

function isToken(header: string | undefined, token: string): boolean {
  const [given, expected] = [Buffer.from(header ?? ""), Buffer.from(`Bearer ${token}`)];
  return given.length === expected.length && timingSafeEqual(given, expected);
}
