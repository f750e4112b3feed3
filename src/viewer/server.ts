// The viewer's server: one page, and answers as JSON. It serves only this machine, or clients that
// have the token; it changes nothing and makes no requests.

import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { ConfigurationError } from "../core/index.ts";
import { type Listener, listen } from "../http/index.ts";
import { isOwnOrigin, requestAddress } from "../lib/address.ts";
import { answer, runOf, type ViewerParts } from "./answers.ts";
import { readPageParts, safeHeaders, servedPage } from "./page.ts";

export type ViewerAddress = {
  readonly host: string;
  /** Port to listen on; 0 for a free one. */
  readonly port: number;
  /** Token that requests must carry; `null` serves only programs on this machine. */
  readonly token: string | null;
};

const mostSearchCharacters = 1000;

/** Rejects with a `ConfigurationError` if the address is not available. */
export async function serveViewer(parts: ViewerParts, { host, port, token }: ViewerAddress): Promise<Listener> {
  const page = servedPage(await readPageParts());
  const serve = async (incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> => {
    const { method = "GET", url = "/" } = incoming;
    const address = requestAddress(url);
    if (address === null) return refuse(outgoing, 400, "Cannot serve the request: its target is not a valid URL.");
    const { pathname, search: query, searchParams } = address;
    if (method !== "GET" && method !== "HEAD") return refuse(outgoing, 405, "Cannot do that: the viewer only reads.");
    if (token !== null && !isToken(incoming, searchParams, token)) {
      return refuse(
        outgoing,
        403,
        "Cannot serve the request: its token is missing or wrong; use the address that the viewer printed.",
      );
    }
    if (pathname === "/") return void outgoing.writeHead(200, page.headers).end(method === "HEAD" ? "" : page.html);
    if (!pathname.startsWith("/api/")) return refuse(outgoing, 404, "Cannot find the page: there is only one, at /.");
    if (pathname === "/api/search") return search(outgoing, searchParams, parts);
    const { status, body } = await answer(`${pathname}${query}`, parts);
    outgoing.writeHead(status, { ...safeHeaders, "content-type": "application/json; charset=utf-8" }).end(body);
  };
  const onRequest = (incoming: IncomingMessage, outgoing: ServerResponse): void => {
    serve(incoming, outgoing).catch((error: unknown) => {
      const isClients = error instanceof ConfigurationError;
      const message = error instanceof Error ? error.message : String(error);
      refuse(outgoing, isClients ? 400 : 500, message);
    });
  };
  return listen(onRequest, {
    what: "viewer",
    host,
    port,
    hasToken: token !== null,
    requestTimeoutMs: 60_000,
    forbid: (outgoing, message) => refuse(outgoing, 403, message),
  });
}

function refuse(outgoing: ServerResponse, status: number, message: string): void {
  if (outgoing.headersSent) return void outgoing.destroy();
  const body = JSON.stringify({ error: message });
  outgoing.writeHead(status, { ...safeHeaders, "content-type": "application/json; charset=utf-8" }).end(body);
}

/**
 * Checks the token in the address of the page, or in a header of the page's requests. A page of
 * another origin has neither.
 */
function isToken({ headers }: IncomingMessage, query: URLSearchParams, token: string): boolean {
  const given = headers["x-viewer-token"] ?? query.get("token") ?? "";
  const digest = (text: string): Buffer => createHash("sha256").update(text).digest();
  const { host = "", origin } = headers;
  if (origin !== undefined && !isOwnOrigin({ host, origin })) return false;
  return typeof given === "string" && timingSafeEqual(digest(given), digest(token));
}

/** Hits as lines of JSON, as they are found. */
async function search(outgoing: ServerResponse, query: URLSearchParams, parts: ViewerParts): Promise<void> {
  const run = await runOf(query, parts);
  const text = query.get("text") ?? "";
  if (text === "" || text.length > mostSearchCharacters) {
    throw new ConfigurationError(`Cannot search: enter 1 to ${mostSearchCharacters} characters.`);
  }
  const ended = new AbortController();
  outgoing.on("close", () => ended.abort());
  outgoing.writeHead(200, { ...safeHeaders, "content-type": "application/x-ndjson; charset=utf-8" });
  const hits = run.search(text, ended.signal);
  for (;;) {
    const { done, value } = await hits.next();
    outgoing.write(`${JSON.stringify(value)}\n`);
    if (done) break;
  }
  outgoing.end();
}
