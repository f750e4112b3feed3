// The viewer's server: one page, and answers as JSON. It serves only this machine, or clients that
// have the token; it makes no requests, and only marks of episodes can be written through it.

import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { ConfigurationError } from "../core/index.ts";
import { type Listener, listen } from "../http/index.ts";
import { isOwnOrigin, requestAddress } from "../lib/address.ts";
import { answer, useRun, type ViewerParts } from "./answers.ts";
import { objectOf } from "./episode-store.ts";
import { readPageParts, safeHeaders, servedPage } from "./page.ts";
import type { RunView } from "./run-view.ts";
import type { PlainJson, PlainObject } from "./wire/index.ts";

export type ViewerAddress = {
  readonly host: string;
  /** Port to listen on; 0 for a free one. */
  readonly port: number;
  /** Token that requests must carry; `null` serves only programs on this machine. */
  readonly token: string | null;
  /** True if no mark may be written. @default false */
  readonly isReadOnly?: boolean;
};

const mostSearchCharacters = 1000;

/** Rejects with a `ConfigurationError` if the address is not available. */
export async function serveViewer(
  parts: ViewerParts,
  { host, port, token, isReadOnly = false }: ViewerAddress,
): Promise<Listener> {
  const writeToken = isReadOnly ? null : randomBytes(16).toString("hex");
  const page = servedPage(await readPageParts(), writeToken);
  const serve = async (incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> => {
    const { method = "GET", url = "/" } = incoming;
    const address = requestAddress(url);
    if (address === null) return refuse(outgoing, 400, "Cannot serve the request: its target is not a valid URL.");
    const { pathname, search: query, searchParams } = address;
    const isWrite = method === "POST" && pathname === "/api/mark";
    if (method !== "GET" && method !== "HEAD" && !isWrite) {
      return refuse(outgoing, 405, "Cannot do that: the viewer only reads, and keeps marks.");
    }
    if (token !== null && !isToken(incoming, searchParams, token)) {
      return refuse(
        outgoing,
        403,
        "Cannot serve the request: its token is missing or wrong; use the address that the viewer printed.",
      );
    }
    if (isWrite) return mark({ incoming, outgoing }, { query: searchParams, parts, writeToken });
    if (pathname === "/") return void outgoing.writeHead(200, page.headers).end(method === "HEAD" ? "" : page.html);
    if (!pathname.startsWith("/api/")) return refuse(outgoing, 404, "Cannot find the page: there is only one, at /.");
    if (pathname === "/api/search") {
      return useRun(searchParams, parts, (run) => search(outgoing, searchParams, run));
    }
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
  const { host = "", origin } = headers;
  if (origin !== undefined && !isOwnOrigin({ host, origin })) return false;
  return isSame(given, token);
}

function isSame(given: string | string[] | undefined, token: string): boolean {
  const digest = (text: string): Buffer => createHash("sha256").update(text).digest();
  return typeof given === "string" && timingSafeEqual(digest(given), digest(token));
}

const mostBodyBytes = 64 << 10;

type Exchange = { readonly incoming: IncomingMessage; readonly outgoing: ServerResponse };

/**
 * Keeps a mark. Only the page that this server sent has the write token; a page of another origin can
 * neither read it nor send its header.
 */
async function mark(
  { incoming, outgoing }: Exchange,
  {
    query,
    parts,
    writeToken,
  }: { readonly query: URLSearchParams; readonly parts: ViewerParts; readonly writeToken: string | null },
): Promise<void> {
  const refused = (status: number, message: string): void => {
    // The rest of the body is not read.
    outgoing.shouldKeepAlive = false;
    refuse(outgoing, status, message);
  };
  if (writeToken === null) {
    return refused(403, "Cannot keep the mark: the viewer was started with --read-only; start it without.");
  }
  if (!isSame(incoming.headers["x-viewer-write"], writeToken)) {
    return refused(403, "Cannot keep the mark: the page is of a viewer that has ended; reload it.");
  }
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of incoming as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > mostBodyBytes) return refused(413, `Cannot keep the mark: it has more than ${mostBodyBytes} bytes.`);
    chunks.push(chunk);
  }
  const expected = 'expected {"episode": "…", "mark": {"verdict": "right" or "wrong", "fault", "why"} or null}';
  const malformed = new ConfigurationError(`Cannot keep the mark: it is malformed; ${expected}.`);
  let body: PlainObject | null;
  try {
    body = objectOf(JSON.parse(Buffer.concat(chunks).toString("utf8")) as PlainJson);
  } catch {
    throw malformed;
  }
  const name = body?.["episode"];
  const { readMark } = await import("./annotations.ts");
  const given = body?.["mark"] === null ? null : readMark(body?.["mark"]);
  if (typeof name !== "string" || given === undefined) throw malformed;
  const kept = await useRun(query, parts, (run) => run.mark(name, given));
  outgoing.writeHead(200, { ...safeHeaders, "content-type": "application/json; charset=utf-8" });
  outgoing.end(JSON.stringify({ mark: kept }));
}

/** Hits as lines of JSON, as they are found. */
async function search(outgoing: ServerResponse, query: URLSearchParams, run: RunView): Promise<void> {
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
