// Public entry: the gateway, through which external agent programs sample from the policy and are
// recorded.

import type { ApiModel } from "../chat-models/index.ts";
import {
  type ConstrainedLoss,
  defaultSampling,
  type Engine,
  type Episode,
  type LineageCredit,
  type Renderer,
  type SamplingParams,
} from "../core/index.ts";
import type { Listener } from "../http/index.ts";
import { type Clock, systemClock } from "../lib/clock.ts";
import { type EpisodeOptions, type ExportSamples, type GroupPolicy, keepAllGroups } from "../rollout/index.ts";
import { type Disk, type FileRunStore, openRunFolder, type ResumedRun } from "../store/index.ts";
import { GatewayHandler, type GatewayHttpRequest, type GatewayHttpResponse } from "./gateway.ts";
import { serveSocket } from "./serve-socket.ts";
import type { SessionModel } from "./program-session.ts";
import type { SessionWorlds, WorldAnswer, WorldConversation } from "./session-worlds.ts";
import type { SessionCounters } from "./session-call.ts";
import { type ClientConstraints, defaultConstraints } from "./session-constraint.ts";
import type { ClientSampling } from "./session-sampling.ts";
import type { ClientTemplate } from "./session-template.ts";
import { Sessions } from "./sessions.ts";

export {
  type AgentEpisodeOptions,
  type AgentPrograms,
  type AgentProgramsOptions,
  openAgentPrograms,
} from "./agent-programs.ts";
export { type AgentPermissions, loadAcp, permissionKinds } from "./acp/acp-library.ts";
export { GatewayError } from "./request.ts";
export type {
  ClientSampling,
  GatewayHttpRequest,
  GatewayHttpResponse,
  SessionCounters,
  SessionWorlds,
  WorldAnswer,
  WorldConversation,
};

/** The policy, or the model that answers in its place. */
type AnsweringParts =
  | { readonly engine: Engine; readonly renderer: Renderer; readonly apiModel?: never }
  /** An API model that is evaluated: the conversation is recorded, and nothing is trained. */
  | {
      /** The model; `null` if programs call models of their own. */
      readonly apiModel: ApiModel | null;
      readonly engine?: never;
      readonly renderer?: never;
    };

export type GatewayParts = AnsweringParts & {
  /** Store of the run. The caller opens it, and closes it after the gateway. */
  readonly store: Pick<FileRunStore, "append" | "appendGroup" | "record" | "kept"> & {
    /**
     * Disk of the store. While it refuses writes, requests get 503 and `/health` reports the
     * reason.
     * @default calls wait for the store
     */
    readonly disk?: Disk;
  };
  /** Rows that are stored together with a kept group. @default none */
  readonly exportSamples?: ExportSamples;
  /** Rows of an ended session in a format, for `GET /v1/sessions/<id>/samples`. @default none */
  readonly rowsOf?: (episode: Episode, format: string | null) => readonly unknown[];
  /** Environments with which sessions may be opened. @default sessions have none */
  readonly worlds?: SessionWorlds;
};

export type GatewayOptions = {
  /** Seed of the run, from which the seeds of sessions derive. @default 0 */
  readonly seed?: number;
  /** Sampling parameters that override `defaultSampling`; a session may set its own. */
  readonly sampling?: Partial<SamplingParams>;
  /**
   * Handling of sampling parameters that clients set, because rows that were sampled with
   * parameters other than the session's are off-policy. "ignore" counts them, "obey" uses them,
   * "refuse" answers with an error.
   * @default "ignore"
   */
  readonly clientSampling?: ClientSampling;
  /** Handling of template variables that clients set. @default "ignore" */
  readonly clientTemplate?: ClientTemplate;
  /**
   * Handling of constraints that clients request: forced tools and formats of the answer. "obey"
   * samples under a grammar of the engine, and refuses the request if it has none; "ignore" counts
   * them. @default "obey"
   */
  readonly clientConstraints?: ClientConstraints;
  /**
   * Tokens of a constrained turn that enter the loss: all that had a choice ("train"), only the
   * free ones ("mask"), or none ("drop"). @default "mask"
   */
  readonly constrained?: ConstrainedLoss;
  /**
   * Agents of a program whose turns the reward of its session trains: "all", only the "main" one, or
   * all with rows that weigh as much as they have trained tokens ("by-tokens"). @default "all"
   */
  readonly credit?: LineageCredit;
  /**
   * Limits, retries, deadlines and seeds of calls, the same as for an episode: the calls of a
   * session are its turns.
   */
  readonly episode?: Pick<EpisodeOptions, "limits" | "retry" | "turnTimeoutMs" | "engineAbort" | "seedTurns">;
  /** Number of sessions of one task or group whose rewards are compared. @default 1 */
  readonly groupSize?: number;
  /** Rules for keeping groups. @default every group with a reward is kept */
  readonly groups?: Partial<GroupPolicy>;
  /** Time without a call after which a session is ended, in milliseconds. @default 3,600,000 */
  readonly idleMs?: number;
  /** Maximum number of open sessions; more are refused with 429. @default 4096 */
  readonly maxSessions?: number;
  /** Maximum number of calls in flight in one session; more are refused with 429. @default 64 */
  readonly maxCalls?: number;
  /**
   * Token for opening, grading and ending sessions; required to listen beyond this machine.
   * @default none: any program on this machine may
   */
  readonly token?: string | null;
  /** True if an unknown key opens a session of that name. @default true only without a token */
  readonly opensByUse?: boolean;
  /** Name of the model that `/v1/models` lists. @default "policy" */
  readonly modelName?: string;
  /**
   * Time without an event after which a streamed answer sends a comment, in milliseconds.
   * @default 10,000
   */
  readonly keepAliveMs?: number;
  /** Maximum size of a request body, both as sent and decoded, in bytes. @default 32 MiB */
  readonly maxBodyBytes?: number;
  /** Removes secrets from errors. @default nothing is removed */
  readonly redact?: (text: string) => string;
  /** Receives faults that no client waits for. @default they are ignored */
  readonly onFault?: (error: unknown) => void;
  readonly clock?: Clock;
};

export interface Gateway {
  /** Open sessions. */
  readonly sessions: readonly {
    readonly id: string;
    readonly turns: number;
    readonly running: number;
    readonly counters: SessionCounters;
  }[];
  /**
   * Resumes the sessions that earlier processes left in the run folder, which `resumeFileRunStore`
   * opened. Call it before the first request.
   */
  restore(earlier: ResumedRun): Promise<void>;
  /** Answers a request without a socket. Never rejects. */
  handle(request: GatewayHttpRequest): Promise<GatewayHttpResponse>;
  /**
   * A `fetch` function for client libraries in this process that accept one: nothing goes over a
   * network. The host of the URL is ignored.
   *
   * @example
   * new OpenAI({ baseURL: "http://gateway/v1", apiKey: key, fetch: gateway.fetch });
   */
  readonly fetch: typeof globalThis.fetch;
  /**
   * Serves on a socket; port 0 picks a free one. While the socket drains, further requests get 503.
   * Rejects with a `ConfigurationError` if the address is not available, or not safe without a
   * token.
   */
  listen(address?: { readonly host?: string; readonly port?: number }): Promise<Listener>;
  /** Opens a session, the same as `POST /v1/sessions`. */
  open(session?: Parameters<Sessions["create"]>[0]): Promise<{ readonly id: string; readonly key: string }>;
  /**
   * Restarts a session with a new key, for a program that begins again: earlier samples of the
   * session are not trained.
   */
  reopen(id: string): Promise<string>;
  /** Grades a session. The last grade before the session ends counts. */
  reward(id: string, grade: NonNullable<Episode["grade"]>): Promise<void>;
  /**
   * Ends a session; "cancelled" leaves it ungraded. The last session of a group triggers the
   * group's decision.
   * @default "session_ended"
   */
  end(id: string, stopReason?: "session_ended" | "cancelled"): Promise<Episode>;
  /** Stops the timers. Open sessions stay in the journal, and the next process resumes them. */
  close(): void;
}

/** Creates a gateway. It sends nothing to the engine before the first request. */
export function createGateway(parts: GatewayParts, options: GatewayOptions = {}): Gateway {
  const { token = null, clock = systemClock, maxBodyBytes = 32 * 2 ** 20, redact = (text) => text } = options;
  const { exportSamples = () => [], rowsOf = () => [], worlds = null, store, apiModel, engine, renderer } = parts;
  const answers: SessionModel =
    apiModel === undefined ? { type: "policy", engine, renderer } : { type: "api", model: apiModel };
  const sessions = new Sessions(
    { answers, store, exportSamples, worlds, clock },
    {
      seed: options.seed ?? 0,
      sampling: { ...defaultSampling, ...options.sampling },
      clientSampling: options.clientSampling ?? "ignore",
      clientTemplate: options.clientTemplate ?? "ignore",
      constraints: {
        clients: options.clientConstraints ?? defaultConstraints.clients,
        loss: options.constrained ?? defaultConstraints.loss,
      },
      credit: options.credit ?? "all",
      episode: options.episode ?? {},
      groupSize: options.groupSize ?? 1,
      policy: { ...keepAllGroups, ...options.groups },
      idleMs: options.idleMs ?? 3_600_000,
      maxSessions: options.maxSessions ?? 4096,
      maxCalls: options.maxCalls ?? 64,
      opensByUse: options.opensByUse ?? token === null,
      onFault: options.onFault ?? (() => undefined),
    },
  );
  const { modelName = "policy", keepAliveMs = 10_000 } = options;
  const listeners: Listener[] = [];
  const handler = new GatewayHandler(sessions, {
    token,
    modelName,
    maxBodyBytes,
    keepAliveMs,
    redact,
    rowsOf,
    admin: sessions,
    disk: parts.store.disk ?? null,
    isDraining: () => listeners.some(({ isDraining }) => isDraining),
  });
  return {
    get sessions() {
      return sessions.open.map(({ settings: { id }, turns, running, counters }) => ({ id, turns, running, counters }));
    },
    restore: async (earlier) => sessions.restore(await earlierSessions(earlier)),
    handle: (request) => handler.handle(request),
    fetch: (input, init) => fetchFrom(handler, new Request(input, init)),
    listen: async ({ host = "127.0.0.1", port = 8900 } = {}) => {
      const listener = await serveSocket(handler, { host, port, hasToken: token !== null, maxBodyBytes });
      listeners.push(listener);
      return listener;
    },
    open: async (session = {}) => {
      const opened = await sessions.create(session);
      return { id: opened.session.settings.id, key: opened.key };
    },
    reopen: (id) => sessions.reopen(id),
    reward: (id, grade) => sessions.reward(id, grade),
    end: (id, stopReason = "session_ended") => sessions.end(id, stopReason),
    close: () => sessions.close(),
  };
}

async function earlierSessions({ store, inFlight, decided }: ResumedRun): Promise<Parameters<Sessions["restore"]>[0]> {
  const inGroups = new Set([...decided.values()].flatMap(({ episodeIds }) => episodeIds));
  const ended: { id: string; events: Episode["events"]; undecidedTask: string | null }[] = [];
  for await (const { id, task, events } of openRunFolder(store.location).episodes()) {
    // Only their keys and places are kept: a folder may hold more episodes than fit in memory.
    const opening = events.filter(({ type }) => type === "session");
    ended.push({ id, events: opening, undecidedTask: inGroups.has(id) ? null : task.id });
  }
  return { inFlight: await Promise.all([...inFlight].map((id) => store.recorded(id))), ended };
}

// Implements `fetch` with the gateway, for client libraries in the same process: requests and
// answers are values, and nothing is sent.

async function fetchFrom(handler: GatewayHandler, request: Request): Promise<Response> {
  const { pathname, search } = new URL(request.url);
  const unread = new AbortController();
  const answer = await handler.handle({
    method: request.method,
    url: `${pathname}${search}`,
    headers: Object.fromEntries(request.headers),
    body: Buffer.from(await request.arrayBuffer()),
    signal: AbortSignal.any([request.signal, unread.signal]),
  });
  const { status, headers, body } = answer;
  if (typeof body !== "string") {
    const ends = { delivered: answer.delivered, left: () => unread.abort() };
    return new Response(streamOf(body, ends), { status, headers });
  }
  // A value that was returned counts as delivered.
  answer.delivered?.();
  return new Response(body, { status, headers });
}

/**
 * Stream of an answer: delivered once its reader has reached the end; a reader that stops earlier
 * counts as gone.
 */
function streamOf(
  body: AsyncIterable<string>,
  { delivered, left }: { readonly delivered: GatewayHttpResponse["delivered"]; readonly left: () => void },
): ReadableStream<Uint8Array> {
  const parts = body[Symbol.asyncIterator]();
  const encoder = new TextEncoder();
  return new ReadableStream(
    {
      pull: async (controller) => {
        const next = await parts.next();
        if (next.done !== true) return controller.enqueue(encoder.encode(next.value));
        delivered?.();
        controller.close();
      },
      cancel: left,
    },
    { highWaterMark: 0 },
  );
}
