// The rollout service: routes behind a router, with the bounds that every request meets first. Not the composition: which
// environment, engines and files it works with are values.

import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { getRequestListener } from "@hono/node-server";
import { Hono } from "hono";
import { ConfigurationError, type GroupRecord } from "../core/index.ts";
import { type Clock, systemClock } from "../lib/clock.ts";
import { isFromThisMachine, isLoopback } from "../lib/address.ts";
import { isAllowed } from "./access.ts";
import { EpisodeStage } from "./episode-stage.ts";
import { GroupMemory } from "./group-memory.ts";
import { openGroup } from "./open-group.ts";
import { ProducerDesk } from "./producer-desk.ts";
import type { ProducerRequest } from "./producer-request.ts";
import { producerBody, toProducerRequest } from "./wire/producer-requests.ts";
import type { ServiceState } from "./operations.ts";
import { readJson } from "./read-json.ts";
import type { LoggedRequest } from "./request-log.ts";
import { RolloutDesk } from "./rollout-desk.ts";
import type { Route } from "./route.ts";
import { serviceRoutes } from "./routes.ts";
import { defaultServiceLimits, type ServiceLimits, type ServiceParts } from "./service-parts.ts";
import { ServiceRefusal } from "./service-refusal.ts";
import { openApiDocument } from "./wire/open-api.ts";
import { episodeBody, groupBody, readBody, toGroupRequest } from "./wire/requests.ts";

/** How long a closing service waits for answers to leave, and how often it looks. */
const mostPoliteMs = 1000;
const politeStepMs = 10;

export type RolloutServiceOptions = {
  readonly limits?: Partial<ServiceLimits>;
  /** Demanded as a bearer token by everything but health, readiness and the document. Default `null`: nothing is demanded. */
  readonly token?: string | null;
  /** Takes secrets out of answers. Default: nothing is taken out. */
  readonly redact?: (text: string) => string;
  /** Measures the leases of producers. Default: the real one. */
  readonly clock?: Clock;
  /** Named in the document. Default "0". */
  readonly version?: string;
};

export type ServiceAddress = {
  /** Default "127.0.0.1". Any other address needs a token. */
  readonly host?: string;
  /** Default 8800; 0 takes a free one. */
  readonly port?: number;
};

export interface RolloutService {
  /** Episodes that have a place, and those that wait for one. */
  readonly counts: { readonly running: number; readonly waiting: number };
  /** Producers that run, pause or drain; `batches`: number of the next batch. */
  readonly producers: readonly { readonly id: string; readonly state: string; readonly batches: number }[];
  /** Answers a request without a socket. Never rejects. */
  handle(request: Request): Promise<Response>;
  /** Serves on a socket. Rejects with a `ConfigurationError` when the address cannot be had or is not safe without a token. */
  listen(address?: ServiceAddress): Promise<{ readonly url: string; close(): Promise<void> }>;
  /** As `RolloutDesk.restore` and `ProducerDesk.restore`. */
  restore(
    earlier: readonly LoggedRequest[],
    options: { readonly decided: ReadonlyMap<string, GroupRecord> },
  ): Promise<void>;
  /** The document of `/openapi.json`. */
  document(): unknown;
  /** Takes nothing more; `wait`: until what runs has ended, otherwise it is cut off. */
  close(options: { readonly wait: boolean }): Promise<void>;
}

export function createRolloutService(parts: ServiceParts, options: RolloutServiceOptions = {}): RolloutService {
  const { token = null, version = "0", redact = (text) => text, clock = systemClock } = options;
  const limits: ServiceLimits = { ...defaultServiceLimits, ...options.limits };
  const memory = new GroupMemory({
    archive: parts.archive,
    maxRemembered: limits.maxRemembered,
    open: (request, identity) => openGroup(request, identity, parts),
  });
  const stage = new EpisodeStage(parts, { memory, concurrency: limits.concurrency });
  const desk = new RolloutDesk(parts, limits, { memory, stage });
  const producers = new ProducerDesk({ parts, memory, stage, clock }, limits);
  const state: ServiceState = { desk, producers, stage, parts, limits, redact };
  const document = (): unknown => openApiDocument(routes, { version });
  const routes: readonly Route[] = serviceRoutes(state, document);
  const app = new Hono();
  for (const route of routes) {
    app.on(route.method.toUpperCase(), route.path.replace(/\{(\w+)\}/g, ":$1"), async ({ req }) => {
      if (route.access === "token" && !isAllowed(req.header("authorization") ?? null, token)) {
        throw new ServiceRefusal(
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
  app.notFound(({ req }) => {
    const isKnown = routes.some(({ path }) => matches(path, req.path));
    return isKnown
      ? new ServiceRefusal("method-not-allowed", `Cannot ${req.method} ${req.path}; see /openapi.json.`).toResponse()
      : new ServiceRefusal("not-found", "Cannot find this path; see /openapi.json.").toResponse();
  });
  app.onError((error) =>
    (error instanceof ServiceRefusal
      ? error
      : new ServiceRefusal("internal", `Cannot serve the request: ${error.message}`)
    ).toResponse(redact),
  );
  return {
    get counts() {
      return { running: stage.running, waiting: stage.waiting };
    },
    get producers() {
      return producers.live.map(({ producerId: id, status, batches }) => ({ id, state: status.state, batches }));
    },
    handle: async (request) => app.fetch(request),
    listen: (address = {}) => listen((request) => app.fetch(request), { token, ...address }),
    restore: async (earlier, { decided }) => {
      await desk.restore(earlier, { decided, read: readLogged });
      const read = (body: unknown): ProducerRequest => toProducerRequest(readBody(producerBody, body));
      await producers.restore(earlier, { decided, read });
    },
    document,
    close: async (closing) => {
      producers.freeze();
      await desk.close(closing);
      await stage.idle();
      await producers.idle();
    },
  };
}

/** Bodies of single episodes and of groups are told apart by what only a group has. */
function readLogged(body: unknown): ReturnType<typeof toGroupRequest> {
  const isGroup = typeof body === "object" && body !== null && "samples" in body;
  return toGroupRequest(readBody(isGroup ? groupBody : episodeBody, body));
}

function matches(path: string, asked: string): boolean {
  const pattern = path.split("/");
  const words = asked.split("/");
  return (
    pattern.length === words.length && pattern.every((part, index) => part.startsWith("{") || part === words[index])
  );
}

async function listen(
  fetch: (request: Request) => Response | Promise<Response>,
  { token, host = "127.0.0.1", port = 8800 }: ServiceAddress & { readonly token: string | null },
): Promise<{ readonly url: string; close(): Promise<void> }> {
  if (token === null && !isLoopback(host)) {
    throw new ConfigurationError(
      `Cannot serve on ${host} without a token: others on the network could use the service; give it a token.`,
    );
  }
  const guarded = (request: Request): Response | Promise<Response> =>
    token !== null || isFromThisMachine(request.headers)
      ? fetch(request)
      : new ServiceRefusal(
          "forbidden",
          "Cannot serve the request: without a token only programs of this machine are served, under the name localhost; give the service a token.",
        ).toResponse();
  const answer = getRequestListener(guarded, { overrideGlobalObjects: false });
  const server = createServer((incoming, outgoing) => void answer(incoming, outgoing));
  // A client that sends slowly holds a socket, not the service.
  server.headersTimeout = 10_000;
  server.requestTimeout = 30_000;
  server.keepAliveTimeout = 30_000;
  await bind(server, { host, port });
  const { address, family, port: taken } = server.address() as AddressInfo;
  return {
    url: `http://${family === "IPv6" ? `[${address}]` : address}:${taken}`,
    close: () => closePolitely(server),
  };
}

/** Who is being answered gets the answer; who keeps a connection for later, or reads too slowly, does not hold the service up. */
async function closePolitely(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => {
    server.close(() => resolve());
  });
  // Connections are idle a moment after their last answer has left, and nobody says when that is.
  for (let waited = 0; waited < mostPoliteMs; waited += politeStepMs) {
    server.closeIdleConnections();
    if (await isSettled(closed)) return;
  }
  server.closeAllConnections();
  await closed;
}

function isSettled(closed: Promise<void>): Promise<boolean> {
  return Promise.race([closed.then(() => true), systemClock.sleep(politeStepMs).then(() => false)]);
}

function bind(server: Server, { host, port }: { readonly host: string; readonly port: number }): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (cause: NodeJS.ErrnoException) => {
      const state = cause.code === "EADDRINUSE" ? "the port is taken" : cause.message;
      reject(new ConfigurationError(`Cannot serve on ${host}:${port}: ${state}; choose another port.`, { cause }));
    });
    server.listen(port, host, resolve);
  });
}
