// The gateway: serves requests of agent programs in the dialects that they speak, and requests that
// open, grade and end sessions. Free of sockets: a request is a value, an answer is a value or a stream of
// text. Sockets are in `serve-socket.ts`.

import { hash, timingSafeEqual } from "node:crypto";
import type { z } from "zod";
import { AttributedError, type Episode, messageOf } from "../core/index.ts";
import { acceptedEncodings, BodyError, probePaths, unpackBody } from "../http/index.ts";
import { finish, takeTurns } from "../lib/steps.ts";
import { type Disk, DiskGuard } from "../store/index.ts";
import { clientAgentOf } from "./client-agents.ts";
import { credentialIn } from "./credentials.ts";
import { chatDialect } from "./dialects/chat.ts";
import { dialectAt, type DialectPath } from "./dialects/dialect-paths.ts";
import {
  type Dialect,
  eventFraming,
  GatewayError,
  type GatewayRequest,
  type RequestHeaders,
  type SampledItems,
} from "./request.ts";
import { readBody } from "./dialects/request-fields.ts";
import { endSchema, newSessionSchema, rewardSchema } from "./session-bodies.ts";
import { readLists } from "./dialects/fields.ts";
import type { ProgramRequest } from "./forward/forward-request.ts";
import { LeftWork } from "./left-work.ts";
import { digestOf } from "./open-calls.ts";
import type { ProgramSession } from "./program-session.ts";
import { parseJson } from "./read-body.ts";
import { restOf } from "./stream-rest.ts";
import type { SessionCall } from "./session-call.ts";
import type { Sessions } from "./sessions.ts";

export type GatewayHttpRequest = {
  readonly method: string;
  /** Path and query. */
  readonly url: string;
  /**
   * Headers with names in lower case; a header that was sent twice is a list, or joined by commas.
   */
  readonly headers: RequestHeaders;
  readonly body: Buffer;
  /**
   * Aborted if the client leaves before it has received the whole answer: then an equal request
   * gets that answer.
   * @default a client that was not answered, or whose answer is not `delivered`, counts as gone
   * once there is an answer
   */
  readonly signal?: AbortSignal | undefined;
};

export type GatewayHttpResponse = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | AsyncIterable<string>;
  /** Call it once the client has received the whole answer. */
  readonly delivered?: (() => void) | undefined;
};

export type GatewayHandlerOptions = {
  /** Token required for everything except the endpoints of models; `null` if none is required. */
  readonly token: string | null;
  /** Name of the model that `/v1/models` lists. */
  readonly modelName: string;
  /** Maximum size of a request body, both as sent and decoded, in bytes. */
  readonly maxBodyBytes: number;
  /** Time without an event after which a stream sends a comment, in milliseconds. */
  readonly keepAliveMs: number;
  /** Removes secrets from messages. */
  readonly redact: (text: string) => string;
  /** Rows of an ended session in a format. Throws a `GatewayError` for an unknown format. */
  readonly rowsOf: (episode: Episode, format: string | null) => readonly unknown[];
  /**
   * Opens, grades and ends sessions on request; `null` if only this process opens and ends them.
   */
  readonly admin: Sessions | null;
  /**
   * Disk on which sessions are recorded: nothing is sampled while it refuses writes. `null` if
   * callers wait for it.
   */
  readonly disk: Disk | null;
  /** True if the server is about to stop. */
  readonly isDraining: () => boolean;
};

/** Retry delay for clients of a gateway whose disk is full, or that is about to stop. */
const busyRetryMs = 5000;

const bodyErrorCodes = { 400: "invalid-request", 413: "too-large", 415: "unsupported-media-type" } as const;

/** Answers requests. */
export class GatewayHandler {
  readonly #sessions: Pick<Sessions, "counter" | "find" | "hasKey" | "open" | "world">;
  readonly #options: GatewayHandlerOptions;
  readonly #guard: DiskGuard;
  /** Sessions whose clients left before they received the key. */
  readonly #left = new LeftWork<Awaited<ReturnType<Sessions["create"]>>>();

  constructor(
    sessions: Pick<Sessions, "counter" | "find" | "hasKey" | "open" | "world">,
    options: GatewayHandlerOptions,
  ) {
    this.#sessions = sessions;
    this.#options = options;
    this.#guard = new DiskGuard(
      options.disk,
      ({ message }) =>
        new GatewayError("overloaded", `Cannot serve the request now: ${message}`, { retryAfterMs: busyRetryMs }),
    );
  }

  /** Answers a request. Never rejects. */
  async handle(received: GatewayHttpRequest): Promise<GatewayHttpResponse> {
    const [whole = "", query = ""] = received.url.split("?", 2);
    const prefixed = /^\/s\/([^/]+)(\/.*)$/.exec(whole);
    const path = prefixed?.[2] ?? whole;
    const spoken = dialectAt(path, query);
    try {
      if (this.#options.isDraining() && !probePaths.includes(path)) {
        throw new GatewayError(
          "overloaded",
          "Cannot serve the request: the gateway is shutting down; try again later.",
          { retryAfterMs: busyRetryMs },
        );
      }
      const encoding = received.headers["content-encoding"];
      const body = await unpackBody(received.body, encoding, this.#options.maxBodyBytes);
      const request = { ...received, body };
      if (spoken !== null && request.method === "POST") {
        const key = this.#keyOf(request, prefixed?.[1], spoken.key);
        return await this.#turn(spoken, request, key);
      }
      if (request.method === "GET" && /^\/v1\/models(\/.+)?$/.test(path)) return json(200, this.#models(path));
      if (prefixed?.[1] === undefined) return await this.#other(request, path, new URLSearchParams(query));
      // The key of a session gives access to its model and its tools; all other paths have no key.
      if (path === "/mcp") return await this.#world(request, this.#keyOf(request, prefixed[1]) ?? "");
      throw noSuchPath(request.method, path);
    } catch (error) {
      return this.#failed(error, spoken?.dialect ?? chatDialect);
    }
  }

  /**
   * The key in the path takes precedence: clients that require an API key may send any other key,
   * except that of another session.
   */
  #keyOf({ headers }: GatewayHttpRequest, inPath: string | undefined, inQuery: string | null = null): string | null {
    const credential = credentialIn(headers, inQuery);
    if (inPath === undefined) return credential;
    const key = decoded(inPath);
    if (credential === null || credential === key || !this.#sessions.hasKey(credential)) return key;
    throw new GatewayError(
      "unauthorized",
      "Cannot serve the request: its path holds the key of one session and a header that of another; send one of them.",
    );
  }

  async #turn(
    { dialect, counts }: DialectPath,
    { body, headers, url, signal }: GatewayHttpRequest,
    key: string | null,
  ): Promise<GatewayHttpResponse> {
    if (key === null || key === "") {
      throw new GatewayError(
        "unauthorized",
        "Cannot serve the request: it names no session; send the session's key as the API key, or in the path /s/<key>.",
      );
    }
    if (this.#isToken(key)) {
      throw new GatewayError(
        "unauthorized",
        "Cannot serve the request: this is the token of the gateway; send the key of a session.",
      );
    }
    const parsed = await takeTurns(parseJson(body, headers["content-type"]));
    const suffix = `${counts ? "/count_tokens" : ""}${/\?[\w=&-]*$/.exec(url)?.[0] ?? ""}`;
    const sent: ProgramRequest = { text: body.toString("utf8"), body: parsed, suffix, headers };
    if (counts) return this.#count(dialect, sent, this.#sessions.counter(key));
    await this.#guard.check();
    const session = await this.#guard.recorded(this.#sessions.find(key));
    const forwarded = "forward" in session ? await this.#guard.recorded(session.forward(dialect, sent)) : null;
    if (forwarded !== null) return forwarded;
    const request = await parsedRequest(dialect, parsed, session.items);
    const idempotencyKey = [headers["idempotency-key"] ?? ""].flat().join().trim() || null;
    const digest = digestOf({ url, body, idempotencyKey });
    const client = clientAgentOf(headers);
    const call = await session.begin(request, { dialect: dialect.name, digest, client });
    if (signal?.aborted === true) call.left();
    signal?.addEventListener("abort", call.left, { once: true });
    if (!request.isStreamed) {
      const answer = await this.#guard.recorded(call.answer);
      if (signal === undefined) call.left();
      return { ...jsonText(200, dialect.whole(answer, request)), delivered: call.delivered };
    }
    // A failure before the first token is an error with its own status, which clients know how to
    // retry.
    await this.#guard.recorded(Promise.race([call.answer, call.deltas.next(this.#options.keepAliveMs)]));
    return {
      status: 200,
      headers: {
        "content-type": (dialect.framing ?? eventFraming).contentType,
        "cache-control": "no-cache",
        connection: "keep-alive",
      },
      body: this.#stream(call, dialect, { request, hasSignal: signal !== undefined }),
      // A stream that ended with an error does not count as an answer.
      delivered: () => (call.deltas.isSent ? call.delivered() : call.left()),
    };
  }

  async #count(
    dialect: Dialect,
    sent: ProgramRequest,
    counter: ReturnType<Sessions["counter"]>,
  ): Promise<GatewayHttpResponse> {
    if (!("forward" in counter)) {
      const request = await parsedRequest(dialect, sent.body, counter.items);
      const tokens = await takeTurns(counter.countTokens(request));
      return json(200, dialect.countBody?.(tokens) ?? { input_tokens: tokens });
    }
    const forwarded = await counter.forward(dialect, sent);
    if (forwarded !== null) return forwarded;
    throw new GatewayError("not-found", "Cannot count the tokens of the request: the API model has no path for it.");
  }

  async *#stream(
    call: SessionCall,
    dialect: Dialect,
    { request, hasSignal }: { readonly request: GatewayRequest; readonly hasSignal: boolean },
  ): AsyncGenerator<string> {
    const stream = dialect.stream(call.head, request);
    yield stream.start(call.promptTokens);
    const sent = { reasoning: "", content: "" };
    let at = 0;
    for (;;) {
      for (; at < call.deltas.list.length; at++) {
        const delta = call.deltas.list[at]!;
        sent[delta.type] += delta.text;
        yield stream.delta(delta);
      }
      if (call.deltas.isDone) break;
      if ((await call.deltas.next(this.#options.keepAliveMs)) === "nothing")
        yield (dialect.framing ?? eventFraming).keepAlive;
    }
    try {
      yield* restOf(await this.#guard.recorded(call.answer), stream, {
        sent,
        retold: () => call.deltas.list.splice(0),
      });
      call.deltas.isSent = true;
    } catch (error) {
      yield stream.error(this.#asGatewayError(error));
    } finally {
      if (!hasSignal) call.left();
    }
  }

  async #other(request: GatewayHttpRequest, path: string, query: URLSearchParams): Promise<GatewayHttpResponse> {
    const { method } = request;
    if (method === "GET" && probePaths.includes(path)) return this.#health();
    if (!/^\/v1\/sessions(\/|$)/.test(path)) throw noSuchPath(method, path);
    this.#checkToken(credentialIn(request.headers));
    const [named = null, action = null] = path.split("/").slice(3).map(decoded);
    const id = named === null ? null : this.#managed.idOf(named);
    const body = (): unknown =>
      request.body.length === 0 ? {} : finish(parseJson(request.body, request.headers["content-type"]));
    if (id === null && method === "GET")
      return json(200, { sessions: this.#managed.open.map((one) => this.#view(one)) });
    if (id === null && method === "POST") return this.#create(body(), request.headers);
    if (id !== null && action === null && method === "GET") return json(200, this.#view(this.#managed.get(id)));
    if (id !== null && action === "reward" && method === "POST") {
      const grade = gradeOf(readBody(rewardSchema, body()));
      await this.#guard.check();
      await this.#guard.recorded(this.#managed.reward(id, grade));
      return json(200, this.#view(this.#managed.get(id)));
    }
    if (id !== null && action === "end" && method === "POST") {
      const given = readBody(endSchema, body());
      const { metrics, log, turn_rewards: turns } = given;
      if (given.reward === undefined && (turns !== undefined || log !== "" || Object.keys(metrics).length > 0)) {
        const message = `Cannot end session "${id}": its grade has no reward; add one, or omit the grade.`;
        throw new GatewayError("invalid-request", message, { param: "reward" });
      }
      await this.#guard.check();
      // A repeated request finds the session ended, and gets the same answer as the first.
      if (given.reward !== undefined && this.#managed.isOpen(id))
        await this.#guard.recorded(this.#managed.reward(id, gradeOf({ ...given, reward: given.reward })));
      return json(200, endedView(await this.#guard.recorded(this.#managed.end(id))));
    }
    if (id !== null && action === "samples" && method === "GET") {
      const episode = await this.#managed.ended(id);
      return json(200, { id, samples: this.#options.rowsOf(episode, query.get("format")) });
    }
    throw noSuchPath(method, path);
  }

  async #create(body: unknown, headers: RequestHeaders): Promise<GatewayHttpResponse> {
    const {
      sampling,
      group_size: groupSize,
      environment_task: environmentTask,
      ...rest
    } = readBody(newSessionSchema, body);
    const given = Object.entries({
      temperature: sampling?.temperature,
      topP: sampling?.top_p,
      topK: sampling?.top_k,
      minP: sampling?.min_p,
      repetitionPenalty: sampling?.repetition_penalty,
      seed: sampling?.seed,
      maxNewTokens: sampling?.max_new_tokens,
    }).filter(([, value]) => value !== undefined && value !== null);
    await this.#guard.check();
    const request = { ...rest, groupSize, environmentTask, sampling: Object.fromEntries(given) };
    const opening = this.#left.take(request) ?? this.#managed.create(request);
    const { session, key } = await this.#guard.recorded(opening, () => this.#left.keep(request, opening));
    const host = typeof headers["host"] === "string" ? headers["host"] : "127.0.0.1";
    return json(200, {
      ...this.#view(session),
      key,
      base_url: `http://${host}/v1`,
      session_url: `http://${host}/s/${key}`,
      ...(environmentTask === undefined ? {} : { mcp_url: `http://${host}/s/${key}/mcp` }),
    });
  }

  /**
   * Serves the tools of a session's environment; the key of the session is in the path, because MCP
   * clients are configured only with a URL.
   */
  #world({ method, url, headers, body }: GatewayHttpRequest, key: string): Promise<GatewayHttpResponse> {
    const single = Object.entries(headers).map(([name, value]) => [
      name,
      Array.isArray(value) ? value.join(", ") : (value as string | undefined),
    ]);
    const given = { method, url, headers: Object.fromEntries(single) as Record<string, string | undefined> };
    return this.#sessions.world(key, { ...given, body: body.toString("utf8") });
  }

  /**
   * Health of the gateway: "ok", "draining" when the server is about to stop, or "degraded" with
   * the reason when the disk refuses writes.
   */
  async #health(): Promise<GatewayHttpResponse> {
    const sessions = this.#sessions.open.length;
    if (this.#options.isDraining()) return busy({ status: "draining", sessions });
    const fault = await this.#guard.fault();
    return fault === null
      ? json(200, { status: "ok", sessions })
      : busy({ status: "degraded", reason: this.#options.redact(fault.message), sessions });
  }

  #models(path: string): unknown {
    const model = { id: this.#options.modelName, object: "model", created: 0, owned_by: "trainable-agents" };
    return path === "/v1/models" ? { object: "list", data: [model] } : model;
  }

  get #managed(): Sessions {
    const { admin } = this.#options;
    if (admin !== null) return admin;
    throw new GatewayError("not-found", "Cannot find sessions: each is that of an episode, opened and ended with it.");
  }

  #view(session: ProgramSession): Record<string, unknown> {
    const { settings, turns, running, reward, counters } = session;
    const { id, groupId, sampleIndex, task } = settings;
    return {
      id,
      task: task.id,
      group: groupId,
      sample_index: sampleIndex,
      tags: this.#managed.tagsOf(id),
      turns,
      running,
      reward,
      counters: {
        calls: counters.calls,
        extended: counters.extended,
        replayed: counters.replayed,
        branched: counters.branched,
        ignored_sampling: counters.ignoredSampling,
        ignored_fields: counters.ignoredFields,
        ignored_tools: counters.ignoredTools,
      },
    };
  }

  #checkToken(credential: string | null): void {
    if (this.#options.token === null || (credential !== null && this.#isToken(credential))) return;
    throw new GatewayError(
      "unauthorized",
      "Cannot serve the request: its token is missing or wrong; send Authorization: Bearer <token>.",
    );
  }

  /** Compares in constant time. */
  #isToken(credential: string): boolean {
    const { token } = this.#options;
    const digest = (text: string): Buffer => hash("sha256", text, "buffer");
    return token !== null && timingSafeEqual(digest(credential), digest(token));
  }

  #asGatewayError(error: unknown): GatewayError {
    if (error instanceof GatewayError) {
      const { code, message, retryAfterMs, param, context } = error;
      return new GatewayError(code, this.#options.redact(message), {
        param,
        context,
        ...(retryAfterMs !== null && { retryAfterMs }),
      });
    }
    if (error instanceof BodyError) return new GatewayError(bodyErrorCodes[error.status], error.message);
    const message = this.#options.redact(`Cannot serve the request: ${messageOf(error)}`);
    return error instanceof AttributedError && error.failure.boundary === "store"
      ? new GatewayError("overloaded", message, { retryAfterMs: busyRetryMs })
      : new GatewayError("internal", message);
  }

  #failed(cause: unknown, dialect: Dialect): GatewayHttpResponse {
    const error = this.#asGatewayError(cause);
    const { retryAfterMs } = error;
    const answer = json(error.status, dialect.error(error));
    const headers: Record<string, string> = { ...answer.headers };
    // Retry headers that the clients of OpenAI and Anthropic read.
    if (retryAfterMs === null) headers["x-should-retry"] = "false";
    else headers["retry-after"] = String(Math.ceil(retryAfterMs / 1000));
    if (error.status === 415) headers["accept-encoding"] = acceptedEncodings;
    return { ...answer, headers };
  }
}

async function parsedRequest(dialect: Dialect, body: unknown, items: SampledItems): Promise<GatewayRequest> {
  const restated = dialect.restate?.(body) ?? body;
  return dialect.read(await takeTurns(readLists(restated, dialect.lists)), items);
}

/** The path is shown without any part that may be a key. */
function noSuchPath(method: string, path: string): GatewayError {
  const shown = path.replace(/^\/s\/[^/]*/, "/s/<key>").slice(0, 200);
  return new GatewayError("not-found", `Cannot ${method} ${shown}: there is no such path.`);
}

function endedView({ id, outcome, stopReason, reward, trajectory, groupId }: Episode): unknown {
  return { id, group: groupId, outcome, stop_reason: stopReason, reward, turns: trajectory.turns.length };
}

function gradeOf({
  reward,
  metrics,
  log,
  turn_rewards: turnRewards,
}: z.infer<typeof rewardSchema>): Episode["grade"] & object {
  return { reward, metrics, log, info: new Map(), ...(turnRewards === undefined ? {} : { turnRewards }) };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    throw new GatewayError("invalid-request", "Cannot read the path: a part of it is not valid percent-encoding.");
  }
}

function json(status: number, body: unknown): GatewayHttpResponse {
  return jsonText(status, JSON.stringify(body));
}

function jsonText(status: number, body: string): GatewayHttpResponse {
  return { status, headers: { "content-type": "application/json" }, body };
}

/** Answer for a client that should retry later. */
function busy(body: unknown): GatewayHttpResponse {
  const answer = json(503, body);
  return { ...answer, headers: { ...answer.headers, "retry-after": String(busyRetryMs / 1000) } };
}
