// Public entry: the gateway, through which agent programs of others sample from the policy, and are recorded.

import type { ApiModel } from "../chat-models/index.ts";
import { defaultSampling, type Engine, type Episode, type Renderer, type SamplingParams } from "../core/index.ts";
import type { Listener } from "../http/index.ts";
import { type Clock, systemClock } from "../lib/clock.ts";
import { type EpisodeOptions, type ExportSamples, type GroupPolicy, keepAllGroups } from "../rollout/index.ts";
import { type Disk, type FileRunStore, openRunFolder, type ResumedRun } from "../store/index.ts";
import { GatewayHandler, type GatewayHttpRequest, type GatewayHttpResponse } from "./gateway.ts";
import { serveSocket } from "./serve-socket.ts";
import type { SessionModel } from "./program-session.ts";
import type { SessionWorlds, WorldAnswer } from "./session-worlds.ts";
import type { SessionCounters } from "./session-call.ts";
import type { ClientSampling } from "./session-sampling.ts";
import type { ClientTemplate } from "./session-template.ts";
import { Sessions } from "./sessions.ts";

export {
  type AgentEpisodeOptions,
  type AgentPrograms,
  type AgentProgramsOptions,
  openAgentPrograms,
} from "./agent-programs.ts";
export { GatewayError } from "./request.ts";
export type { ClientSampling, GatewayHttpRequest, GatewayHttpResponse, SessionCounters, SessionWorlds, WorldAnswer };

/** The policy, or what answers in its place. */
type AnsweringParts =
  | { readonly engine: Engine; readonly renderer: Renderer; readonly apiModel?: never }
  /** An API model that is evaluated: a conversation is recorded, and nothing is trained. */
  | {
      /** `null`: programs call models of their own. */
      readonly apiModel: ApiModel | null;
      readonly engine?: never;
      readonly renderer?: never;
    };

export type GatewayParts = AnsweringParts & {
  /** Begun by the caller, and closed by it after the gateway. */
  readonly store: Pick<FileRunStore, "append" | "appendGroup" | "record" | "kept"> & {
    /** While it refuses writes, requests get 503 and `/health` says why. @default calls wait for the store */
    readonly disk?: Disk;
  };
  /** Rows that are stored beside a kept group. @default none */
  readonly exportSamples?: ExportSamples;
  /** The rows of an ended session in a format, for `GET /v1/sessions/<id>/samples`. @default none */
  readonly rowsOf?: (episode: Episode, format: string | null) => readonly unknown[];
  /** The environments that sessions may be opened with. @default sessions have none */
  readonly worlds?: SessionWorlds;
};

export type GatewayOptions = {
  /** Seed of the run, from which the seeds of sessions derive. @default 0 */
  readonly seed?: number;
  /** Over `defaultSampling`; a session may set its own. */
  readonly sampling?: Partial<SamplingParams>;
  /**
   * Handling of sampling parameters that clients set, because rows that were sampled with
   * parameters other than the session's are off-policy. "ignore" counts them, "obey" uses them,
   * "refuse" answers with an error. @default "ignore"
   */
  readonly clientSampling?: ClientSampling;
  /** Handling of template variables that clients set. @default "ignore" */
  readonly clientTemplate?: ClientTemplate;
  /** Limits, retries, deadlines and seeds of calls, as of an episode: a session's calls are its turns. */
  readonly episode?: Pick<EpisodeOptions, "limits" | "retry" | "turnTimeoutMs" | "engineAbort" | "seedTurns">;
  /** Sessions of one task or group whose rewards are compared. @default 1 */
  readonly groupSize?: number;
  /** Which groups are kept. @default every group with a reward */
  readonly groups?: Partial<GroupPolicy>;
  /** A session without a call for so long is ended, in milliseconds. @default 3,600,000 */
  readonly idleMs?: number;
  /** Open at once; more are refused with 429. @default 4096 */
  readonly maxSessions?: number;
  /** Calls in flight of one session; more are refused with 429. @default 64 */
  readonly maxCalls?: number;
  /** Opens, rewards and ends sessions; needed beyond this machine. @default none: all of this machine may */
  readonly token?: string | null;
  /** True if an unknown key opens a session of that name. @default true only without a token */
  readonly opensByUse?: boolean;
  /** Listed by `/v1/models`. @default "policy" */
  readonly modelName?: string;
  /** A streamed answer without an event for so long gets a comment, in milliseconds. @default 10,000 */
  readonly keepAliveMs?: number;
  /** Maximum size of a request body, both as sent and decoded, in bytes. @default 32 MiB */
  readonly maxBodyBytes?: number;
  /** Takes secrets out of errors. @default nothing is taken out */
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
  /** Takes up what earlier processes left in the run folder, which `resumeFileRunStore` opened. Call before the first request. */
  restore(earlier: ResumedRun): Promise<void>;
  /** Answers a request without a socket. Never rejects. */
  handle(request: GatewayHttpRequest): Promise<GatewayHttpResponse>;
  /**
   * The same for client libraries in this process, which take a `fetch` of one's own: nothing goes over a network. Any host will do.
   *
   * @example
   * new OpenAI({ baseURL: "http://gateway/v1", apiKey: key, fetch: gateway.fetch });
   */
  readonly fetch: typeof globalThis.fetch;
  /**
   * Serves on a socket; port 0 takes a free one. While the socket drains, further requests get 503. Rejects with a
   * `ConfigurationError` when the address is not available, or not safe without a token.
   */
  listen(address?: { readonly host?: string; readonly port?: number }): Promise<Listener>;
  /** Opens a session, as `POST /v1/sessions` does. */
  open(session?: Parameters<Sessions["create"]>[0]): Promise<{ readonly id: string; readonly key: string }>;
  /** A new key for a program that begins its session again: nothing of what was sampled so far is trained. */
  reopen(id: string): Promise<string>;
  /** Grades a session. The last grade before its end counts. */
  reward(id: string, grade: NonNullable<Episode["grade"]>): Promise<void>;
  /** Ends a session; "cancelled" leaves it ungraded. Its group is decided when it was the last of it. @default "session_ended" */
  end(id: string, stopReason?: "session_ended" | "cancelled"): Promise<Episode>;
  /** Stops its timers. Open sessions stay in the journal, and the next process takes them up. */
  close(): void;
}

/** Makes a gateway. Sends nothing to the engine before the first request. */
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
    // Their keys and places: a folder may hold more episodes than memory.
    const opening = events.filter(({ type }) => type === "session");
    ended.push({ id, events: opening, undecidedTask: inGroups.has(id) ? null : task.id });
  }
  return { inFlight: await Promise.all([...inFlight].map((id) => store.recorded(id))), ended };
}

// The gateway as a `fetch`, for client libraries in the same process: requests and answers are values, and nothing is sent.

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
  // A value that is handed over has arrived.
  answer.delivered?.();
  return new Response(body, { status, headers });
}

/** Delivered once its reader has had the end; its reader has left when it stops before. */
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
