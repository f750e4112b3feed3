// The rollout service: a router for its routes, and the limits that apply to every request first.
// Independent of the composition: environment, engines and files are values.

import { createHash, timingSafeEqual } from "node:crypto";
import type { ServerResponse } from "node:http";
import { getRequestListener } from "@hono/node-server";
import { Hono } from "hono";
import { AttributedError, type GroupRecord } from "../core/index.ts";
import { BodyError, type Listener, listen, readStream, unpackBody } from "../http/index.ts";
import { type Clock, systemClock } from "../lib/clock.ts";
import { DiskGuard } from "../store/index.ts";
import { Adapters } from "./adapters.ts";
import { EpisodePool } from "./episode-pool.ts";
import { GroupRequests } from "./group-requests.ts";
import { JobStore } from "./job-store.ts";
import { openApiDocument, type Route } from "./open-api.ts";
import { producerRoutes } from "./producer-routes.ts";
import { Producers } from "./producers.ts";
import type { LoggedRequest } from "./request-log.ts";
import { readGroup, readProducer } from "./requests.ts";
import { serviceRoutes } from "./routes.ts";
import { ServiceError, storeUnavailable } from "./service-error.ts";
import { defaultServiceLimits, type ServiceLimits, type ServiceParts } from "./service-options.ts";

export type RolloutServiceOptions = {
  readonly limits?: Partial<ServiceLimits>;
  /**
   * Bearer token, required for everything except health, readiness and the document. Default
   * `null`: none is required.
   */
  readonly token?: string | null;
  /** Removes secrets from responses. Default: nothing is removed. */
  readonly redact?: (text: string) => string;
  /** Clock that measures the leases of producers. Default: the real one. */
  readonly clock?: Clock;
  /** Version in the document. Default "0". */
  readonly version?: string;
};

export type ServiceAddress = {
  /** Host to listen on. Default "127.0.0.1". Any other address needs a token. */
  readonly host?: string;
  /** Port to listen on. Default 8800; 0 picks a free one. */
  readonly port?: number;
};

export interface RolloutService {
  /** Number of episodes that run, and of those that wait for a permit. */
  readonly counts: { readonly running: number; readonly waiting: number };
  /** Producers that run, pause or drain; `batches` is the number of the next batch. */
  readonly producers: readonly { readonly id: string; readonly state: string; readonly batches: number }[];
  /** Responds to a request without a socket. Never rejects. */
  handle(request: Request): Promise<Response>;
  /**
   * Serves on a socket. Rejects with a `ConfigurationError` if the address is not available, or not
   * safe without a token.
   */
  listen(address?: ServiceAddress): Promise<Listener>;
  /** Resumes the requests that earlier processes accepted. Call it before the first request. */
  restore(
    earlier: readonly LoggedRequest[],
    options: { readonly decided: ReadonlyMap<string, GroupRecord> },
  ): Promise<void>;
  /** The document of `/openapi.json`. */
  document(): unknown;
  /**
   * Stops accepting requests. `wait`: true to let running episodes end; otherwise they are
   * suspended, and the next process resumes them.
   */
  close(options: { readonly wait: boolean }): Promise<void>;
}

export function createRolloutService(parts: ServiceParts, options: RolloutServiceOptions = {}): RolloutService {
  const { token = null, version = "0", redact = (text) => text, clock = systemClock } = options;
  const limits: ServiceLimits = { ...defaultServiceLimits, ...options.limits };
  const jobs = new JobStore(parts, limits);
  const pool = new EpisodePool(parts, jobs, limits);
  const guard = new DiskGuard(parts.disk ?? null, ({ message }) => storeUnavailable(message));
  const adapters = new Adapters(
    // The next process resumes the groups that a closing service ends.
    async (name) => (pool.isClosing ? undefined : parts.adapters?.unload(name)),
    (error) => parts.onFault?.(error),
  );
  const shared = { parts, limits, clock, jobs, pool, guard, adapters };
  const requests = new GroupRequests(shared);
  const producers = new Producers(shared);
  const context = { ...shared, requests, producers, redact };
  const document = (): unknown => openApiDocument(routes, { version });
  const routes: readonly Route[] = [...serviceRoutes(context, document), ...producerRoutes(context)];
  const app = new Hono();
  const patterns = routes.map(({ path }) => path.replace(/\{(\w+)\}/g, ":$1"));
  for (const [index, route] of routes.entries()) {
    app.on(route.method.toUpperCase(), patterns[index]!, async ({ req }) => {
      if (route.access === "token" && !isAllowed(req.header("authorization") ?? null, token)) {
        throw new ServiceError(
          "unauthorized",
          "Cannot serve the request: its token is missing or wrong; send Authorization: Bearer <token>.",
        );
      }
      return route.handle({
        params: req.param(),
        query: new URL(req.url).searchParams,
        headers: req.raw.headers,
        body: route.body === null ? undefined : await readJson(req.raw, limits.maxBodyBytes),
        signal: req.raw.signal,
      });
    });
  }
  for (const pattern of patterns) {
    app.all(pattern, ({ req }) =>
      new ServiceError("method-not-allowed", `Cannot ${req.method} ${req.path}; see /openapi.json.`).toResponse(),
    );
  }
  app.notFound(() => new ServiceError("not-found", "Cannot find this path; see /openapi.json.").toResponse());
  app.onError((error) =>
    (error instanceof ServiceError
      ? error
      : error instanceof AttributedError && error.failure.boundary === "store"
        ? storeUnavailable(error.message)
        : new ServiceError("internal", `Cannot serve the request: ${error.message}`)
    ).toResponse(redact),
  );
  return {
    get counts() {
      return { running: pool.running, waiting: pool.waiting };
    },
    get producers() {
      return producers.live.map(({ producerId: id, status, batches }) => ({ id, state: status.state, batches }));
    },
    handle: async (request) => app.fetch(request),
    listen: (address = {}) => listenFor((request) => app.fetch(request), { token, ...address }),
    restore: async (earlier, { decided }) => {
      for (const line of earlier) if ("groupIndex" in line) jobs.reserveNumber(line.groupIndex);
      await requests.restore(earlier, { decided, read: readGroup });
      await producers.restore(earlier, { decided, read: readProducer });
    },
    document,
    close: async (closing) => {
      producers.freeze();
      await pool.close(closing);
    },
  };
}

function listenFor(
  fetch: (request: Request) => Response | Promise<Response>,
  { token, host = "127.0.0.1", port = 8800 }: ServiceAddress & { readonly token: string | null },
): Promise<Listener> {
  const answer = getRequestListener(fetch, { overrideGlobalObjects: false });
  return listen((incoming, outgoing) => void answer(incoming, outgoing), {
    what: "service",
    host,
    port,
    hasToken: token !== null,
    requestTimeoutMs: 30_000,
    forbid: (outgoing, message) => send(outgoing, new ServiceError("forbidden", message)),
    refuse: (outgoing, message) => send(outgoing, new ServiceError("closing", message)),
  });
}

function send(outgoing: ServerResponse, error: ServiceError): void {
  const { status, body, headers } = error.toAnswer();
  outgoing.writeHead(status, headers).end(body);
}

/**
 * Parses a JSON body. Throws a `ServiceError`. The content type must be JSON: a web page of another
 * origin cannot send that without permission.
 */
async function readJson(request: Request, maxBytes: number): Promise<unknown> {
  const type = request.headers.get("content-type")?.split(";", 1)[0]?.trim().toLowerCase();
  if (type !== "application/json") {
    throw new ServiceError(
      "unsupported-media-type",
      `Cannot read the request: its content-type is ${type === undefined || type === "" ? "missing" : JSON.stringify(type.slice(0, 60))}; send application/json.`,
    );
  }
  const bytes = await readBody(request, maxBytes);
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes)) as unknown;
  } catch {
    throw new ServiceError("bad-request", "Cannot read the request: its body is not JSON.");
  }
}

async function readBody({ headers, body }: Request, maxBytes: number): Promise<Uint8Array> {
  try {
    return await unpackBody(await readStream(body, maxBytes), headers.get("content-encoding"), maxBytes);
  } catch (error) {
    if (error instanceof BodyError) throw new ServiceError(bodyErrorCodes[error.status], error.message);
    throw error;
  }
}

const bodyErrorCodes = { 400: "bad-request", 413: "too-large", 415: "unsupported-media-type" } as const;

/** True if no token is required or the header contains it; compared in constant time. */
function isAllowed(authorization: string | null, token: string | null): boolean {
  if (token === null) return true;
  if (authorization === null) return false;
  const digest = (text: string): Buffer => createHash("sha256").update(text).digest();
  return timingSafeEqual(digest(authorization), digest(`Bearer ${token}`));
}
