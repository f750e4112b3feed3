// The gateway: requests of agent programs in three dialects, and of whoever opens, rewards and ends their sessions. Pure of
// sockets: a request is a value, an answer is a value or a stream of text. Sockets are in `serve-socket.ts`.

import { hash, timingSafeEqual } from "node:crypto";
import { z } from "zod";
import { type Episode, messageOf } from "../core/index.ts";
import { chatDialect, completionsDialect } from "./dialects/chat.ts";
import {
  type AnswerDelta,
  type AnswerStream,
  type Dialect,
  type GatewayAnswer,
  GatewayError,
  type GatewayRequest,
} from "./request.ts";
import { readBody, samplingShape } from "./dialects/fields.ts";
import type { ProgramRequest } from "./forward/forward-request.ts";
import { messagesDialect } from "./dialects/messages.ts";
import { responsesDialect } from "./dialects/responses.ts";
import type { ProgramSession } from "./program-session.ts";
import type { SessionCall } from "./session.ts";
import type { Sessions } from "./sessions.ts";

export type GatewayHttpRequest = {
  readonly method: string;
  /** Path and query. */
  readonly url: string;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly body: Buffer;
};

export type GatewayHttpResponse = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | AsyncIterable<string>;
  /** To be called once the client has had all of it. */
  readonly delivered?: (() => void) | undefined;
};

export type GatewayHandlerOptions = {
  /** Required for everything but the endpoints of models. `null`: nothing is required. */
  readonly token: string | null;
  /** What `/v1/models` lists. */
  readonly modelName: string;
  /** A stream without an event for so long gets a comment, in milliseconds. */
  readonly keepAliveMs: number;
  /** Takes secrets out of messages. */
  readonly redact: (text: string) => string;
  /** The rows of an ended session in a format; throws a `GatewayError` for an unknown one. */
  readonly rowsOf: (episode: Episode, format: string | null) => readonly unknown[];
  /** Opens, rewards and ends sessions on request; `null`: they are opened and ended by this process alone. */
  readonly admin: Sessions | null;
};

const dialects: Readonly<Record<string, Dialect>> = {
  "/chat/completions": chatDialect,
  "/messages": messagesDialect,
  "/responses": responsesDialect,
  "/completions": completionsDialect,
};

const newSessionSchema = z.strictObject({
  id: z
    .string()
    .regex(/^[A-Za-z0-9][A-Za-z0-9._:#@/-]{0,127}$/, "letters, digits and . _ : # @ / - are allowed, at most 128")
    .optional(),
  task: z.string().min(1).max(200).optional(),
  group: z.string().min(1).max(200).optional(),
  group_size: z.int().min(1).max(100_000).optional(),
  seed: z.int().min(0).max(0xffff_ffff).optional(),
  sampling: z
    .strictObject({
      ...{ temperature: samplingShape.temperature, top_p: samplingShape.top_p, top_k: samplingShape.top_k },
      ...{ min_p: samplingShape.min_p, repetition_penalty: samplingShape.repetition_penalty, seed: samplingShape.seed },
      max_new_tokens: z.int().min(1).nullish(),
    })
    .optional(),
  environment_task: z.string().min(1).max(200).optional(),
  tags: z.record(z.string(), z.union([z.string().max(1000), z.number(), z.boolean(), z.null()])).optional(),
});

const rewardSchema = z.strictObject({
  reward: z.number(),
  metrics: z.record(z.string(), z.number()).default({}),
  log: z.string().default(""),
  /** One for each turn so far, in order; they add up to `reward`. */
  turn_rewards: z.array(z.number().nullable()).optional(),
});

const endSchema = rewardSchema.extend({ reward: z.number().optional() });

/** Answers requests. */
export class GatewayHandler {
  readonly #sessions: Pick<Sessions, "counter" | "find" | "open" | "world">;
  readonly #options: GatewayHandlerOptions;

  constructor(sessions: Pick<Sessions, "counter" | "find" | "open" | "world">, options: GatewayHandlerOptions) {
    this.#sessions = sessions;
    this.#options = options;
  }

  /** Never rejects. */
  async handle(request: GatewayHttpRequest): Promise<GatewayHttpResponse> {
    const [whole = "", query = ""] = request.url.split("?", 2);
    const prefixed = /^\/s\/([^/]+)(\/.*)$/.exec(whole);
    const path = prefixed?.[2] ?? whole;
    const model = path.startsWith("/v1/") ? path.slice(3) : path;
    const dialect = dialects[model.replace(/\/count_tokens$/, "")];
    try {
      if (dialect !== undefined && request.method === "POST") {
        const key = prefixed?.[1] === undefined ? credentialIn(request) : decoded(prefixed[1]);
        return await this.#turn(dialect, request, { key, counts: model.endsWith("/count_tokens") });
      }
      if (prefixed?.[1] !== undefined && path === "/mcp") return await this.#world(request, decoded(prefixed[1]));
      return await this.#other(request, path, new URLSearchParams(query));
    } catch (error) {
      return this.#failed(error, dialect ?? chatDialect);
    }
  }

  async #turn(
    dialect: Dialect,
    { body, headers, url }: GatewayHttpRequest,
    { key, counts }: { readonly key: string | null; readonly counts: boolean },
  ): Promise<GatewayHttpResponse> {
    if (key === null || key === "") {
      throw new GatewayError(
        "unauthorized",
        "Cannot serve the request: it names no session; give its key as API key, or in the path /s/<key>.",
      );
    }
    if (this.#isToken(key)) {
      throw new GatewayError(
        "unauthorized",
        "Cannot serve the request: this is the token of the gateway; give the key of a session.",
      );
    }
    const parsed = parseJson(body, headers["content-type"]);
    const suffix = `${counts ? "/count_tokens" : ""}${/\?[\w=&-]*$/.exec(url)?.[0] ?? ""}`;
    const sent: ProgramRequest = { text: body.toString("utf8"), body: parsed, suffix, headers };
    if (counts) return this.#count(dialect, sent, this.#sessions.counter(key));
    const session = await this.#sessions.find(key);
    const forwarded = "forward" in session ? await session.forward(dialect, sent) : null;
    if (forwarded !== null) return forwarded;
    const request = dialect.read(parsed, session.items);
    const digest = hash("sha256", Buffer.concat([Buffer.from(`${url}\n`), body]));
    const call = session.begin(request, { dialect: dialect.name, digest });
    if (!request.isStreamed) {
      const answer = await call.answer;
      return { ...json(200, dialect.whole(answer, request)), delivered: call.delivered };
    }
    // A fault before the first token is an error with its status, which clients know how to try again.
    await Promise.race([call.answer, call.deltas.next(this.#options.keepAliveMs)]);
    return {
      status: 200,
      headers: {
        "content-type": "text/event-stream; charset=utf-8",
        "cache-control": "no-cache",
        connection: "keep-alive",
      },
      body: this.#stream(call, dialect, request),
      // A stream that ended with an error was not an answer.
      delivered: () => {
        if (call.deltas.isTold) call.delivered();
      },
    };
  }

  async #count(
    dialect: Dialect,
    sent: ProgramRequest,
    counter: ReturnType<Sessions["counter"]>,
  ): Promise<GatewayHttpResponse> {
    if (!("forward" in counter)) {
      return json(200, { input_tokens: counter.countTokens(dialect.read(sent.body, counter.items)) });
    }
    const forwarded = await counter.forward(dialect, sent);
    if (forwarded !== null) return forwarded;
    throw new GatewayError("not-found", "Cannot count the tokens of the request: the API model has no path for it.");
  }

  async *#stream(call: SessionCall, dialect: Dialect, request: GatewayRequest): AsyncGenerator<string> {
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
      // A comment ends no event: clients that parse every event never see it.
      if ((await call.deltas.next(this.#options.keepAliveMs)) === "nothing") yield ": keepalive\n";
    }
    try {
      yield* restOf(await call.answer, stream, { sent, retold: () => call.deltas.list.splice(0) });
      call.deltas.isTold = true;
    } catch (error) {
      yield stream.error(this.#asGatewayError(error));
    }
  }

  async #other(request: GatewayHttpRequest, path: string, query: URLSearchParams): Promise<GatewayHttpResponse> {
    const { method } = request;
    if (method === "GET" && path === "/health")
      return json(200, { status: "ok", sessions: this.#sessions.open.length });
    if (method === "GET" && /^\/v1\/models(\/.+)?$/.test(path)) return json(200, this.#models(path));
    if (!/^\/v1\/sessions(\/|$)/.test(path)) {
      throw new GatewayError("not-found", `Cannot ${method} ${path}: there is no such path.`);
    }
    this.#checkToken(credentialIn(request));
    const [id = null, action = null] = path.split("/").slice(3).map(decoded);
    const body = (): unknown =>
      request.body.length === 0 ? {} : parseJson(request.body, request.headers["content-type"]);
    if (id === null && method === "GET")
      return json(200, { sessions: this.#managed.open.map((one) => this.#view(one)) });
    if (id === null && method === "POST") return this.#create(body(), request.headers);
    if (id !== null && action === null && method === "GET") return json(200, this.#view(this.#managed.get(id)));
    if (id !== null && action === "reward" && method === "POST") {
      await this.#managed.reward(id, gradeOf(readBody(rewardSchema, body())));
      return json(200, this.#view(this.#managed.get(id)));
    }
    if (id !== null && action === "end" && method === "POST") {
      const given = readBody(endSchema, body());
      const { metrics, log, turn_rewards: turns } = given;
      if (given.reward === undefined && (turns !== undefined || log !== "" || Object.keys(metrics).length > 0)) {
        const message = `Cannot end session "${id}": its grade has no reward; give it, or leave the grade out.`;
        throw new GatewayError("invalid-request", message, { param: "reward" });
      }
      // A request that comes again finds the session ended, and is answered as the first.
      if (given.reward !== undefined && this.#managed.isOpen(id))
        await this.#managed.reward(id, gradeOf({ ...given, reward: given.reward }));
      return json(200, endedView(await this.#managed.end(id)));
    }
    if (id !== null && action === "samples" && method === "GET") {
      const episode = await this.#managed.ended(id);
      return json(200, { id, samples: this.#options.rowsOf(episode, query.get("format")) });
    }
    throw new GatewayError("not-found", `Cannot ${method} ${path}: there is no such path.`);
  }

  async #create(body: unknown, headers: GatewayHttpRequest["headers"]): Promise<GatewayHttpResponse> {
    const {
      sampling,
      group_size: groupSize,
      environment_task: environmentTask,
      ...rest
    } = readBody(newSessionSchema, body);
    const given = Object.entries({
      ...{ temperature: sampling?.temperature, topP: sampling?.top_p, topK: sampling?.top_k, minP: sampling?.min_p },
      ...{
        repetitionPenalty: sampling?.repetition_penalty,
        seed: sampling?.seed,
        maxNewTokens: sampling?.max_new_tokens,
      },
    }).filter(([, value]) => value !== undefined && value !== null);
    const { session, key } = await this.#managed.create({
      ...{ ...rest, groupSize, environmentTask },
      sampling: Object.fromEntries(given),
    });
    const host = typeof headers["host"] === "string" ? headers["host"] : "127.0.0.1";
    return json(200, {
      ...this.#view(session),
      ...{ key, base_url: `http://${host}/v1`, session_url: `http://${host}/s/${key}` },
      ...(environmentTask === undefined ? {} : { mcp_url: `http://${host}/s/${key}/mcp` }),
    });
  }

  /** The tools of a session's environment; its key stands in the path, because clients of MCP know addresses alone. */
  #world({ method, url, headers, body }: GatewayHttpRequest, key: string): Promise<GatewayHttpResponse> {
    const single = Object.entries(headers).map(([name, value]) => [
      name,
      Array.isArray(value) ? value.join(", ") : (value as string | undefined),
    ]);
    const given = { method, url, headers: Object.fromEntries(single) as Record<string, string | undefined> };
    return this.#sessions.world(key, { ...given, body: body.toString("utf8") });
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
      ...{
        id,
        task: task.id,
        group: groupId,
        sample_index: sampleIndex,
        tags: this.#managed.tagsOf(id),
        turns,
        running,
        reward,
      },
      counters: {
        ...{
          calls: counters.calls,
          extended: counters.extended,
          replayed: counters.replayed,
          branched: counters.branched,
        },
        ...{ ignored_sampling: counters.ignoredSampling, ignored_tools: counters.ignoredTools },
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

  /** Compared in constant time. */
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
    return new GatewayError("internal", this.#options.redact(`Cannot serve the request: ${messageOf(error)}`));
  }

  #failed(cause: unknown, dialect: Dialect): GatewayHttpResponse {
    const error = this.#asGatewayError(cause);
    const { retryAfterMs } = error;
    // As the clients of OpenAI and Anthropic read it.
    const headers =
      retryAfterMs === null ? { "x-should-retry": "false" } : { "retry-after": String(Math.ceil(retryAfterMs / 1000)) };
    const answer = json(error.status, dialect.error(error));
    return { ...answer, headers: { ...answer.headers, ...headers } };
  }
}

/** What the deltas have not said, and the end. */
function* restOf(
  answer: GatewayAnswer,
  stream: AnswerStream,
  { sent, retold }: { readonly sent: Record<AnswerDelta["type"], string>; readonly retold: () => void },
): Generator<string> {
  const { reasoning, content } = answer.action;
  const parts = { reasoning: reasoning ?? "", content };
  for (const type of ["reasoning", "content"] as const) {
    const text = parts[type];
    // The client asks again, and is answered from the record.
    if (!text.startsWith(sent[type])) {
      retold();
      throw new GatewayError("overloaded", `Cannot finish the stream: its ${type} was read otherwise; try again.`);
    }
    // Reasoning that was not streamed before the content cannot be put before it any more.
    if (type === "reasoning" && sent.content !== "") continue;
    if (text.length > sent[type].length) yield stream.delta({ type, text: text.slice(sent[type].length) });
  }
  const { rest, terminal } = stream.end(answer);
  yield rest + terminal;
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

/** The key of a session, or the token: as OpenAI's clients send it, or as Anthropic's do. */
function credentialIn({ headers }: GatewayHttpRequest): string | null {
  const { authorization, "x-api-key": apiKey } = headers;
  if (typeof apiKey === "string") return apiKey;
  const bearer = typeof authorization === "string" ? /^Bearer +(.+)$/i.exec(authorization) : null;
  return bearer?.[1]?.trim() ?? null;
}

const utf8 = new TextDecoder("utf-8", { fatal: true });

/** Deeper bodies are nobody's conversation. */
const deepest = 64;

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    throw new GatewayError("invalid-request", "Cannot read the path: a part of it is not encoded as addresses are.");
  }
}

function parseJson(body: Buffer, contentType: GatewayHttpRequest["headers"][string]): unknown {
  const type = typeof contentType === "string" ? contentType.split(";", 1)[0]!.trim().toLowerCase() : "";
  if (type !== "application/json") {
    throw new GatewayError(
      "invalid-request",
      `Cannot read the request: its content-type is ${JSON.stringify(type.slice(0, 60))}; send application/json.`,
    );
  }
  let value: unknown;
  try {
    value = JSON.parse(utf8.decode(body));
  } catch {
    throw new GatewayError("invalid-request", "Cannot read the request: its body is not JSON.");
  }
  if (depthOf(value) > deepest)
    throw new GatewayError(
      "invalid-request",
      `Cannot read the request: its body is nested deeper than ${deepest} levels.`,
    );
  return value;
}

function depthOf(value: unknown, level = 0): number {
  if (typeof value !== "object" || value === null || level > deepest) return level;
  let most = level + 1;
  for (const one of Array.isArray(value) ? (value as unknown[]) : Object.values(value)) {
    if (typeof one === "object") most = Math.max(most, depthOf(one, level + 1));
  }
  return most;
}

function json(status: number, body: unknown): GatewayHttpResponse {
  return { status, headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
}
