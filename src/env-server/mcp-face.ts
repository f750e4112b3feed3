// The environment as an MCP server over streamable HTTP, for the revisions with sessions (a session
// is an episode) and for 2026-07-28 without (the URL names the episode: `&episode=<name>` if
// several episodes of one task are in progress). Its tools are the environment's. It is written by
// hand: a server of tools needs only a few methods of the protocol, answered at once and as JSON,
// without streaming. Any MCP client can use it: the URL names the task (`?task=17&seed=3`), and two
// tools replace what the protocol lacks (`respond` talks to the user, `finish` ends the episode and
// reports its reward). Our own client identifies itself when it begins, supplies the user, and
// receives exact results (`environments/remote/mcp/own-server.ts` is its side).

import { randomUUID } from "node:crypto";
import { AttributedError, messageOf } from "../core/failure.ts";
import { dumpJson } from "../python-semantics/json/dump-json.ts";
import { parseJson } from "../python-semantics/json/parse-json.ts";
import { fromPlain, toPlain } from "../python-semantics/json/plain.ts";
import { type EpisodeHost, type HostedEpisode, HostFullError, HostRequestError } from "./episode-host.ts";
import { envelopeResult, envelopeVersions, readEnvelope } from "./mcp-envelope.ts";
import {
  conversationTools,
  extraNames,
  finish,
  instructionsFor,
  over,
  respond,
  textContent,
} from "./mcp-conversation.ts";
import { asRecord, rpcError, RpcError, stringOf, wholeOf } from "./rpc-values.ts";

/** The parts of an HTTP request that are read. Header names are lower case. */
export type FaceRequest = {
  readonly method: string;
  readonly url: URL;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly body: string;
  /**
   * True for a client that may use the extensions of this package to a protocol: tasks of every
   * split, the user's side, the exact grade. False for an agent, which gets only the tools of its
   * episode and its reward, regardless of how it introduces itself.
   */
  readonly isTrusted: boolean;
};

export type FaceAnswer = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** JSON body; `null` for none. */
  readonly body: unknown;
};

/**
 * Supported versions, the newest first; a client that requests another one is offered the newest.
 */
const versions = ["2025-11-25", "2025-06-18", "2025-03-26"];
const own = "trainable-agents";
const mostTasks = 500;
/** Maximum number of sessions without an episode of their own, which only describe or share one. */
const mostIdle = 255;

/** Methods that need no session. */
const aloneMethods: ReadonlySet<string> = new Set([
  ...["server/discover", "tools/list", "tools/call", "prompts/list", "prompts/get"],
]);

type Rpc = {
  readonly id: string | number;
  readonly method: string;
  readonly params: Readonly<Record<string, unknown>>;
};

/** A session; without an episode it only describes the environment. */
type Session = {
  readonly id: string;
  readonly episode: HostedEpisode | null;
  /** Trust of the request that began the session. */
  readonly isTrusted: boolean;
  /**
   * True for our own client, if it is trusted: only it may use the methods and fields named after
   * this package.
   */
  readonly isOwn: boolean;
  /** True if the episode is not the session's own, so that the session does not close it. */
  readonly isShared: boolean;
  /** True if two more tools talk to the user and end the episode. */
  readonly hasConversationTools: boolean;
};

export type McpFaceOptions = {
  readonly version: string;
  /** Removes secrets from errors for clients. */
  readonly redact: (text: string) => string;
  /**
   * The episode that all sessions of this face share; the caller opens and closes it.
   * @default each session opens its own
   */
  readonly episode?: HostedEpisode;
  /**
   * False if agents talk to the user, and end the episode, in another way than with tools.
   * @default true
   */
  readonly hasConversationTools?: boolean;
};

export class McpFace {
  readonly #host: EpisodeHost;
  readonly #version: string;
  readonly #redact: (text: string) => string;
  readonly #shared: HostedEpisode | null;
  readonly #hasConversationTools: boolean;
  readonly #sessions = new Map<string, Session>();
  /** Episodes of clients without sessions, by the parameters of their URL. */
  readonly #addressed = new Map<string, Promise<HostedEpisode>>();

  constructor(host: EpisodeHost, { version, redact, episode, hasConversationTools = true }: McpFaceOptions) {
    this.#host = host;
    this.#hasConversationTools = hasConversationTools;
    this.#shared = episode ?? null;
    this.#redact = redact;
    this.#version = version;
  }

  /** Answers a request. Never rejects. */
  async handle(request: FaceRequest): Promise<FaceAnswer> {
    const { method, headers } = request;
    const version = headers["mcp-protocol-version"];
    const spoken = [...envelopeVersions, ...versions];
    if (version !== undefined && !spoken.includes(version)) {
      const message = `Protocol version "${version.slice(0, 40)}" is not supported; use one of ${spoken.join(", ")}.`;
      // A client of a later revision picks one of the listed versions; an older client reads only
      // the status.
      const isLater = version > envelopeVersions[0]!;
      const data = isLater ? { supported: spoken, requested: version.slice(0, 40) } : null;
      return { status: 400, headers: {}, body: rpcError(null, isLater ? -32022 : -32600, message, data) };
    }
    if (method === "DELETE") return this.#end(request);
    if (method !== "POST") {
      return {
        status: 405,
        headers: { allow: "POST, DELETE" },
        body: rpcError(null, -32000, "This server does not stream."),
      };
    }
    const accepts = headers["accept"] ?? "*/*";
    if (!/\*\/\*|application\/(json|\*)/.test(accepts))
      return plainError(406, -32000, "The request must accept application/json.");
    if (!/^application\/json\b/i.test(headers["content-type"] ?? "")) {
      return plainError(415, -32000, "The content type must be application/json.");
    }
    let message: unknown;
    try {
      message = JSON.parse(request.body);
    } catch {
      return plainError(400, -32700, "The request is not JSON.");
    }
    return this.#answer(message, request);
  }

  async close(): Promise<void> {
    const sessions = [...this.#sessions.values()];
    this.#sessions.clear();
    const addressed = await Promise.allSettled(this.#addressed.values());
    this.#addressed.clear();
    await Promise.all([
      ...sessions.flatMap(({ episode, isShared }) => (isShared ? [] : (episode?.close() ?? []))),
      ...addressed.map((opening) => (opening.status === "fulfilled" ? opening.value.close() : undefined)),
    ]);
  }

  /** An open session. A session belongs to clients with the same trust as the one that began it. */
  #session(id: string, isTrusted: boolean): Session | null {
    const session = this.#sessions.get(id);
    return session?.isTrusted === isTrusted ? session : null;
  }

  async #end({ headers, isTrusted }: FaceRequest): Promise<FaceAnswer> {
    const id = headers["mcp-session-id"];
    if (id === undefined) return plainError(400, -32600, "Mcp-Session-Id is missing.");
    const session = this.#session(id, isTrusted);
    if (session === null) return plainError(404, -32001, "There is no such session.");
    this.#sessions.delete(id);
    if (!session.isShared) await session.episode?.close().catch(() => undefined);
    return { status: 200, headers: {}, body: null };
  }

  async #answer(message: unknown, request: FaceRequest): Promise<FaceAnswer> {
    const { jsonrpc, id, method, params = {} } = asRecord(message) ?? {};
    const isAnswer = method === undefined && id !== undefined && asRecord(message) !== null;
    const isId = typeof id === "string" || typeof id === "number";
    if (jsonrpc !== "2.0" || (!isAnswer && typeof method !== "string") || asRecord(params) === null) {
      return plainError(400, -32600, "The request is not a JSON-RPC 2.0 message; batches are not supported.");
    }
    if (id !== undefined && !isId) return plainError(400, -32600, "The id is neither a string nor a number.");
    const rpc = { id: id ?? "", method: String(method), params: params as Rpc["params"] } as Rpc;
    if (!isAnswer) {
      const envelope = readEnvelope(rpc, request.headers);
      if (envelope.type === "refused") {
        const { status, code, message: state, data } = envelope.refusal;
        return { status, headers: {}, body: rpcError(rpc.id === "" ? null : rpc.id, code, state, data) };
      }
      if (envelope.type === "envelope") {
        return id === undefined ? { status: 202, headers: {}, body: null } : this.#answerAlone(rpc, request);
      }
    }
    if (method === "initialize") return this.#initialize(rpc, request);
    const sessionId = request.headers["mcp-session-id"];
    if (sessionId === undefined) return plainError(400, -32600, "Mcp-Session-Id is missing; begin with initialize.");
    const session = this.#session(sessionId, request.isTrusted);
    if (session === null) return plainError(404, -32001, "There is no such session; begin with initialize.");
    if (isAnswer || id === undefined) return { status: 202, headers: {}, body: null };
    try {
      const result = await this.#carryOut(rpc, session);
      return { status: 200, headers: {}, body: { jsonrpc: "2.0", id: rpc.id, result } };
    } catch (error) {
      return { status: 200, headers: {}, body: this.#errorOf(rpc.id, error) };
    }
  }

  /** Answers a request that belongs to no session. */
  async #answerAlone(rpc: Rpc, request: FaceRequest): Promise<FaceAnswer> {
    const { id, method } = rpc;
    if (!aloneMethods.has(method)) {
      return plainError(404, -32601, `There is no method "${method.slice(0, 100)}".`, id);
    }
    try {
      const episode = this.#shared ?? (await this.#addressedEpisode(request, method === "server/discover"));
      const hasConversationTools = this.#hasConversationTools;
      const kind = { isTrusted: request.isTrusted, isOwn: false, isShared: true, hasConversationTools };
      const session: Session = { id: "", episode, ...kind };
      const result =
        method === "server/discover"
          ? {
              supportedVersions: envelopeVersions,
              capabilities: { tools: {}, prompts: {} },
              instructions: instructionsFor(episode, session.hasConversationTools),
            }
          : await this.#carryOut(rpc, session);
      const body = { jsonrpc: "2.0", id, result: envelopeResult(method, result, this.#serverInfo) };
      return { status: 200, headers: {}, body };
    } catch (error) {
      if (error instanceof HostFullError) {
        return { ...plainError(503, -32000, error.message, id), headers: { "retry-after": "1" } };
      }
      return { status: 200, headers: {}, body: this.#errorOf(id, error) };
    }
  }

  /**
   * The episode that the URL names. `begins`: a client that begins gets a new episode if the last
   * one is graded; otherwise it joins the open one.
   */
  async #addressedEpisode({ url: { searchParams }, isTrusted }: FaceRequest, begins: boolean): Promise<HostedEpisode> {
    // An episode belongs to clients with the same trust.
    const key = JSON.stringify([isTrusted, ...["task", "seed", "episode"].map((name) => searchParams.get(name))]);
    const known = this.#addressed.get(key);
    const episode = await known?.catch(() => undefined);
    const isOver = episode === undefined || episode.isClosed || (begins && episode.isGraded);
    if (!isOver) return episode;
    // Another request may have opened the next episode in the meantime.
    const next = this.#addressed.get(key);
    if (next !== undefined && next !== known) return next;
    const opening = this.#open(null, searchParams);
    this.#addressed.set(key, opening);
    opening.catch(() => {
      if (this.#addressed.get(key) === opening) this.#addressed.delete(key);
    });
    void this.#forgetAddressed();
    await episode?.close().catch(() => undefined);
    return opening;
  }

  /** Forgets episodes that the host has closed. */
  async #forgetAddressed(): Promise<void> {
    for (const [key, opening] of this.#addressed) {
      const episode = await opening.catch(() => null);
      if (episode?.isClosed === true && this.#addressed.get(key) === opening) this.#addressed.delete(key);
    }
  }

  get #serverInfo(): { readonly name: string; readonly version: string } {
    return { name: `trainable-agents ${this.#host.source.name}`, version: this.#version };
  }

  async #initialize({ id, params }: Rpc, { url, isTrusted }: FaceRequest): Promise<FaceAnswer> {
    const offered = params["protocolVersion"];
    const protocolVersion = typeof offered === "string" && versions.includes(offered) ? offered : versions[0];
    // Any client can claim this. It has no effect for an agent, like any capability that a server
    // does not know.
    const claimed = asRecord(asRecord(asRecord(params["capabilities"])?.["experimental"])?.[own]);
    const extension = isTrusted ? claimed : null;
    const isOwn = extension !== null;
    this.#forgetClosed();
    let session: Session;
    try {
      const shared = this.#shared;
      const episode = shared ?? (await this.#openFor(extension, url));
      const hasConversationTools = this.#hasConversationTools && !isOwn;
      session = { id: randomUUID(), episode, isTrusted, isOwn, isShared: shared !== null, hasConversationTools };
    } catch (error) {
      if (error instanceof HostFullError) {
        return { ...plainError(503, -32000, error.message, id), headers: { "retry-after": "1" } };
      }
      if (error instanceof HostRequestError) return plainError(400, -32602, error.message, id);
      return { status: 200, headers: {}, body: this.#errorOf(id, error) };
    }
    this.#sessions.set(session.id, session);
    const { episode } = session;
    const about = episode === null ? {} : { info: dumpJson(episode.environment.info) };
    const result = {
      protocolVersion,
      capabilities: {
        tools: {},
        ...(isOwn
          ? { experimental: { [own]: { ...about, opening: episode?.environment.opening ?? null } } }
          : { prompts: {} }),
      },
      serverInfo: this.#serverInfo,
      instructions: instructionsFor(episode, session.hasConversationTools),
    };
    return { status: 200, headers: { "mcp-session-id": session.id }, body: { jsonrpc: "2.0", id, result } };
  }

  /**
   * Opens the episode of a session; `null` for our own client if it names no task, because it only
   * queries the environment.
   */
  async #openFor(extension: Readonly<Record<string, unknown>> | null, url: URL): Promise<HostedEpisode | null> {
    if (extension !== null && (extension["task"] ?? null) === null) return null;
    return this.#open(extension, url.searchParams);
  }

  /** Opens an episode. `extension`: fields of our own client, which supplies the user. */
  async #open(extension: Readonly<Record<string, unknown>> | null, query: URLSearchParams): Promise<HostedEpisode> {
    const task = extension === null ? query.get("task") : (extension["task"] ?? null);
    const seed = Number(extension === null ? (query.get("seed") ?? 0) : (extension["seed"] ?? 0));
    if (!Number.isSafeInteger(seed) || seed < 0)
      throw new HostRequestError("The seed is not a whole number of at least 0.");
    if (task !== null && typeof task !== "string") throw new HostRequestError("The task is not a string.");
    return this.#host.open({ task, seed, hasUser: extension === null });
  }

  #errorOf(id: string | number, error: unknown): object {
    if (error instanceof RpcError) return rpcError(id, error.code, error.message, error.data);
    if (error instanceof HostRequestError) return rpcError(id, -32602, error.message);
    const { boundary, code } = error instanceof AttributedError ? error.failure : { boundary: null, code: null };
    return rpcError(id, -32603, this.#redact(messageOf(error)), boundary === null ? null : { boundary, code });
  }

  /** Forgets sessions whose episodes failed or were idle too long: the host has closed those. */
  #forgetClosed(): void {
    for (const [id, { episode }] of this.#sessions) if (episode?.isClosed === true) this.#sessions.delete(id);
    const idle = [...this.#sessions.values()].filter(({ episode, isShared }) => episode === null || isShared);
    // Sessions without an episode of their own would fill the memory if clients do not end them;
    // the oldest are removed first.
    for (const { id } of idle.slice(0, Math.max(0, idle.length - mostIdle))) this.#sessions.delete(id);
  }

  async #carryOut({ method, params }: Rpc, session: Session): Promise<unknown> {
    const { episode, isOwn } = session;
    if (episode?.isClosed === true)
      throw new RpcError(-32001, "The episode is closed: a call of it failed, or it was idle too long.");
    if (isOwn && method.startsWith(`${own}/`)) return this.#carryOutOwn({ method, params }, episode);
    switch (method) {
      case "ping":
        return {};
      case "tools/list":
        return { tools: toolsOf(session) };
      case "tools/call":
        return this.#callTool(params, session);
      case "prompts/list":
        return { prompts: isOwn ? [] : [{ name: "task", description: "What the user says first." }] };
      case "prompts/get": {
        if (params["name"] !== "task" || episode === null) throw new RpcError(-32602, "There is no such prompt.");
        return { messages: [{ role: "user", content: { type: "text", text: episode.firstUtterance } }] };
      }
      default:
        throw noMethod(method);
    }
  }

  /** Carries out the methods of our own client. */
  async #carryOutOwn(
    { method, params }: Pick<Rpc, "method" | "params">,
    episode: HostedEpisode | null,
  ): Promise<unknown> {
    switch (method) {
      case `${own}/describe`: {
        const { name, splits, users, argumentErrors, unknownTools = "loop", resume = "replay" } = this.#host.source;
        const sizes = Object.fromEntries(splits.map((split) => [split, this.#host.source.taskset(split).size]));
        return { name, sizes, users, argumentErrors, unknownTools, resume };
      }
      case `${own}/tasks`: {
        const [from, count] = [wholeOf(params["from"]), wholeOf(params["count"])];
        return { tasks: this.#host.tasks(String(params["split"]), from, Math.min(count, mostTasks)) };
      }
      case `${own}/hear`: {
        await needed(episode).receiveUtterance(stringOf(params["text"], "text"));
        return {};
      }
      case `${own}/grade`: {
        const outcome = params["outcome"] === "truncated" ? "truncated" : "completed";
        const { info, ...grade } = await needed(episode).grade(outcome);
        return { ...grade, info: dumpJson(info) };
      }
      default:
        throw noMethod(method);
    }
  }

  async #callTool(params: Readonly<Record<string, unknown>>, session: Session): Promise<unknown> {
    const name = stringOf(params["name"], "name");
    const given = asRecord(params["arguments"] ?? {});
    if (given === null) throw new RpcError(-32602, "The arguments are not an object.");
    const episode = needed(session.episode);
    if (!session.isOwn) {
      const extra = session.hasConversationTools ? extraNames(episode.environment.tools) : null;
      if (name === extra?.respond) return respond(episode, given);
      if (name === extra?.finish) return finish(episode, session.isTrusted);
      if (!episode.answers(name)) {
        throw new RpcError(-32602, `There is no tool "${name.slice(0, 100)}".`);
      }
      if (episode.isDone) return over(session.hasConversationTools);
    }
    const exact = asRecord(params["_meta"])?.[`${own}/arguments`];
    const args = session.isOwn && typeof exact === "string" ? parseJson(exact) : fromPlain(given);
    if (!(args instanceof Map)) throw new RpcError(-32602, "The arguments are not an object.");
    const result = await episode.call(name, args, { isChecked: session.isOwn });
    const { text, isError, endsEpisode, info, reward } = result;
    if (!session.isOwn) {
      const said = endsEpisode
        ? `${text}\n[The episode is over${session.hasConversationTools ? "; call finish" : ""}.]`
        : text;
      return { content: textContent(said), isError };
    }
    const more = { endsEpisode, info: dumpJson(info), ...(reward === undefined ? {} : { reward }) };
    return { content: textContent(text), isError, _meta: { [`${own}/result`]: more } };
  }
}

function toolsOf({ episode, isOwn, hasConversationTools }: Session): readonly object[] {
  if (episode === null) return [];
  const { tools } = episode.environment;
  const listed = tools.map(({ name, definition }) => {
    const body = asRecord(toPlain(definition.get("function") ?? new Map())) ?? {};
    const schema = asRecord(body["parameters"]) ?? {};
    return {
      name,
      ...(typeof body["description"] === "string" ? { description: body["description"] } : {}),
      inputSchema: { ...schema, type: "object" },
      ...(isOwn ? { _meta: { [`${own}/definition`]: dumpJson(definition) } } : {}),
    };
  });
  if (!hasConversationTools) return listed;
  return [...listed, ...conversationTools(tools)];
}

function noMethod(method: string): RpcError {
  return new RpcError(-32601, `There is no method "${method.slice(0, 100)}".`);
}

function needed(episode: HostedEpisode | null): HostedEpisode {
  if (episode !== null) return episode;
  throw new RpcError(-32602, "The session has no episode: it was opened without a task.");
}

function plainError(status: number, code: number, message: string, id: string | number | null = null): FaceAnswer {
  return { status, headers: {}, body: rpcError(id, code, message) };
}
