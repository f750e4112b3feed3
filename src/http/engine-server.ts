// Base of the HTTP engines: their common options, one inference server or router as an HTTP peer
// (its address, its key, its refusals), and the base class of the SGLang and vLLM engines.
// Independent of their paths and of sampling.

import { createHash } from "node:crypto";
import { type AttributedError, ConfigurationError } from "../core/failure.ts";
import type { SampleOptions, SampleRequest, SampleResult } from "../core/engine.ts";
import type { TokenBuffer } from "../core/token-buffer.ts";
import { type Clock, systemClock } from "../lib/clock.ts";
import { type BaseUrl, type EngineAddress, requireDuration, resolveAddress } from "./base-url.ts";
import {
  badReply,
  codeOf,
  engineFailure,
  type FailureContext,
  parseJson,
  parseRetryAfter,
  refusalFailure,
  type ServerDialect,
  serverMessage,
} from "./engine-failure.ts";
import { readEventStream } from "./event-stream.ts";
import {
  type HttpCallOptions,
  type HttpClient,
  type HttpRequest,
  type HttpResponse,
  headerValue,
} from "./http-client.ts";
import { createHttpPool } from "./http-pool.ts";
import { createRedactor } from "./redactor.ts";
import { asFields, isTokenId, readCount } from "./reply.ts";
import type { RequestBody } from "./request-body.ts";

/** Options for the calls of every HTTP engine. */
export type ServerEngineOptions = {
  /** API key, sent as a bearer token and never shown. Default `null`: none. */
  readonly apiKey?: string | null;
  /** Value of the `Authorization` header, instead of a key; never shown. Default `null`: none. */
  readonly authorization?: string | null;
  /**
   * Vocabulary size of the served model, padded rows included; a reply with a larger id is refused.
   * Default `null`: not checked.
   */
  readonly vocabularySize?: number | null;
  /**
   * LoRA adapter that samples, by the name under which the server has it; spans have this name as
   * their version. Default `null`: the base.
   */
  readonly adapter?: string | null;
  /**
   * Deadline in milliseconds for one sampling call, waiting for a connection included. Default
   * 1,800,000; `null`: none.
   */
  readonly timeoutMs?: number | null;
  /**
   * Deadline in milliseconds for the head of an answer; without `stream`, servers send it with the
   * whole answer. Default `null`: none.
   */
  readonly firstByteTimeoutMs?: number | null;
  /** Deadline in milliseconds for establishing a connection. Default 10,000. */
  readonly connectTimeoutMs?: number;
  /** Deadline in milliseconds for one control call. Default 30,000. */
  readonly controlTimeoutMs?: number;
  /**
   * Maximum number of connections to one server; further calls wait. About twice the number of
   * requests that the server runs concurrently. Default 512.
   */
  readonly connections?: number;
  /** HTTP client. Default: the engine's own pool, closed with the engine. A given client stays open. */
  readonly http?: HttpClient;
  /** Measures the deadlines of the engine's own pool. Default: the system clock. */
  readonly clock?: Clock;
};

export type EngineServerOptions = {
  readonly base: BaseUrl;
  readonly apiKey: string | null;
  readonly http: HttpClient;
  readonly dialect: ServerDialect;
};

/** Deadline in milliseconds for changing adapters: SGLang unloads one when its running requests have ended. */
export const adapterTimeoutMs = 300_000;

/** Maximum number of bytes read from an error message if the answer is a stream. */
const mostErrorBytes = 65_536;

/** Calls one server. Every method rejects with an `AttributedError` at boundary "engine". */
export class EngineServer {
  readonly #options: EngineServerOptions;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #redact: (text: string) => string;

  constructor(options: EngineServerOptions) {
    const { base, apiKey, dialect } = options;
    if (apiKey !== null && !/^[\x21-\x7e]+$/.test(apiKey)) {
      throw new ConfigurationError(
        `Cannot use the API key of the ${dialect.product} server: it is empty or has characters that headers do not allow; remove spaces and line breaks.`,
      );
    }
    this.#options = options;
    this.#headers = apiKey === null ? {} : { authorization: `Bearer ${apiKey}` };
    this.#redact = createRedactor([apiKey, ...base.secrets]);
  }

  /** Scheme, host, port and path; safe to show. */
  get address(): string {
    return this.#options.base.origin + this.#options.base.path;
  }

  /** Another server with the same key: a worker of this router. */
  at(base: BaseUrl): EngineServer {
    const { authorization, secrets, search } = this.#options.base;
    return new EngineServer({ ...this.#options, base: { ...base, authorization, secrets, search } });
  }

  /** Context for failures of a call. `verb` is a phrase like `sample from`. */
  context(verb: string, path: string): FailureContext {
    return {
      what: `${verb} ${this.#options.dialect.product} at ${this.address}${path}`,
      redact: this.#redact,
      hasApiKey: this.#options.apiKey !== null || this.#options.base.authorization !== null,
      dialect: this.#options.dialect,
    };
  }

  /** A POST if there is a body, otherwise a GET. */
  request(path: string, body: Uint8Array | string | null, headers: Readonly<Record<string, string>> = {}): HttpRequest {
    const content = body === null ? {} : { "content-type": "application/json" };
    return {
      base: this.#options.base,
      method: body === null ? "GET" : "POST",
      path,
      headers: { ...this.#headers, ...content, ...headers },
      body,
    };
  }

  /** Resolves with any status. */
  send(request: HttpRequest, options: HttpCallOptions): Promise<HttpResponse> {
    return this.#options.http.request(request, options);
  }

  /**
   * The JSON from the first of these paths that exists, and the context for failures about it;
   * `null` if the server has none of them, unless one is required. Rejects for any status other
   * than 200.
   */
  async json(
    verb: string,
    paths: readonly string[],
    options: HttpCallOptions & { readonly isRequired?: boolean },
  ): Promise<{ readonly value: unknown; readonly context: FailureContext } | null> {
    for (const path of paths) {
      const answer = await this.send(this.request(path, null), options);
      if (isMissing(answer) && !(options.isRequired === true && path === paths.at(-1))) continue;
      const context = this.context(verb, path);
      if (answer.status !== 200) throw this.refusal(answer, context);
      return { value: parseJson(answer.body, context), context };
    }
    return null;
  }

  /** Calls back with the data of each server-sent event. Rejects if the status is not 200. */
  async stream(
    request: HttpRequest,
    options: HttpCallOptions,
    { onData, context }: { readonly onData: (data: string) => void; readonly context: FailureContext },
  ): Promise<void> {
    const answer = await this.#options.http.stream(request, options);
    if (answer.status !== 200) {
      const parts: Uint8Array[] = [];
      let size = 0;
      for await (const chunk of answer.chunks) {
        parts.push(chunk);
        size += chunk.length;
        if (size > mostErrorBytes) break;
      }
      throw this.refusal({ ...answer, body: Buffer.concat(parts) }, context);
    }
    try {
      for await (const data of readEventStream(answer.chunks)) onData(data);
    } catch (error) {
      // The event stream reader does not know about boundaries, so its error is attributed here.
      throw error instanceof RangeError ? badReply(context, error.message) : error;
    }
  }

  /** The failure for an answer with an unexpected status. */
  refusal(answer: HttpResponse, context: FailureContext): AttributedError {
    const retryAfter = headerValue(answer.headers, "retry-after");
    return refusalFailure(context, {
      status: answer.status,
      message: serverMessage(answer.body.toString()),
      retryAfterMs: parseRetryAfter(retryAfter, headerValue(answer.headers, "date")),
    });
  }
}

/** True for an older server, or one that was started without the call. */
export function isMissing({ status }: HttpResponse): boolean {
  return status === 404 || status === 405;
}

/** Routers silently ignore longer keys. */
const longestKey = 128;

/**
 * The text itself if it is valid in a header, else escaped or hashed: the same text always yields
 * the same value.
 */
export function headerText(text: string): string {
  // A lone surrogate cannot be escaped.
  const value = /^[\x21-\x7e]+$/.test(text) ? text : encodeURIComponent(text.replace(/\p{Cs}/gu, "\ufffd"));
  return value.length <= longestKey ? value : createHash("sha256").update(value).digest("hex");
}

export type CallOptions = { readonly signal?: AbortSignal | undefined };

/**
 * An engine in front of a server: its calls, the last known weight version, and aborts that no call
 * waits for.
 */
export abstract class ServerEngine {
  /** Address that requests go to; safe to show. */
  readonly address: string;
  protected readonly server: EngineServer;
  protected readonly clock: Clock;
  protected readonly controlTimeoutMs: number;
  protected readonly vocabularySize: number | null;
  readonly #adapter: string | null;
  /** True after the server was lost: it may have come back without the adapter. */
  #wasLost = false;
  readonly #limits: Pick<HttpCallOptions, "timeoutMs" | "firstByteTimeoutMs">;
  readonly #ownPool: HttpClient | null;
  readonly #abandoned = new Set<Promise<void>>();
  #version: string | null = null;
  #versionCount = 0;
  /** Number of requests for the version so far, and the number of the latest one that was answered. */
  #requests = 0;
  #answered = 0;

  /** Throws a `ConfigurationError` for an invalid address, key or number. */
  constructor(
    options: ServerEngineOptions & EngineAddress,
    server: { readonly dialect: ServerDialect; readonly defaultPort: number; readonly endpoints: RegExp },
  ) {
    const { apiKey = null, timeoutMs = 1_800_000, firstByteTimeoutMs = null, controlTimeoutMs = 30_000 } = options;
    const { connections = 512, connectTimeoutMs = 10_000, clock = systemClock } = options;
    const { dialect } = server;
    if (apiKey !== null && (options.authorization ?? null) !== null) {
      throw new ConfigurationError(
        `Cannot create an engine for ${dialect.product}: apiKey and authorization are given, and both become the Authorization header; pass only one of them.`,
      );
    }
    const base = resolveAddress(options, { ...server, product: dialect.product });
    for (const [name, ms] of Object.entries({ timeoutMs, firstByteTimeoutMs, controlTimeoutMs })) {
      if (ms !== null) requireDuration(name, ms, dialect.product);
    }
    const http = options.http ?? createHttpPool({ boundary: "engine", connections, connectTimeoutMs, clock });
    this.server = new EngineServer({ base, apiKey, http, dialect });
    this.address = this.server.address;
    this.clock = clock;
    this.controlTimeoutMs = controlTimeoutMs;
    this.vocabularySize = options.vocabularySize ?? null;
    this.#adapter = options.adapter ?? null;
    if (this.#adapter === "") {
      throw new ConfigurationError(
        `Cannot create an engine for ${dialect.product}: adapter is empty, expected the name of a LoRA adapter or null.`,
      );
    }
    this.#limits = { timeoutMs, firstByteTimeoutMs };
    this.#ownPool = options.http === undefined ? http : null;
  }

  /**
   * False if the server is starting, shutting down or stuck: it is reachable and reports that
   * itself.
   */
  async health(options: CallOptions = {}): Promise<boolean> {
    const answer = await this.call("/health", null, options);
    if (answer.status === 200) return true;
    if (answer.status >= 500) return false;
    throw this.refusal(answer, "request the health of", "/health");
  }

  async close(): Promise<void> {
    await Promise.all(this.#abandoned);
    await this.#ownPool?.close();
  }

  /** The last known version; `null` if not known. */
  protected get version(): string | null {
    return this.#version;
  }

  /**
   * Number of times that the version was learned: a reply whose request was sent before the last
   * time is late.
   */
  protected get versionCount(): number {
    return this.#versionCount;
  }

  protected learnVersion(version: string | null): void {
    this.#version = version;
    this.#versionCount++;
  }

  /** Requests the version; an answer is ignored if a later request was answered first. */
  protected async refreshVersion<T>(request: () => Promise<T>, learn: (answer: T) => void): Promise<string | null> {
    const place = ++this.#requests;
    const answer = await request();
    if (place < this.#answered) return this.#version;
    this.#answered = place;
    learn(answer);
    return this.#version;
  }

  /**
   * One sampling call. With `onData`, its events are streamed, and nothing is returned. Rejects if
   * the status is not 200.
   */
  protected async exchange(
    path: string,
    body: Uint8Array,
    options: CallOptions & {
      readonly routing: { readonly header: string | null; readonly key: string | null };
      readonly onData: ((data: string) => void) | null;
      readonly context: FailureContext;
    },
  ): Promise<Buffer | null> {
    const { server } = this;
    const { signal, routing, onData, context } = options;
    // Sticky routing: the same key goes to the same server.
    const headers: Readonly<Record<string, string>> =
      routing.header === null || !routing.key ? {} : { [routing.header]: headerText(routing.key) };
    const request = server.request(path, body, headers);
    const limits = { signal, ...this.#limits };
    if (onData !== null) {
      await server.stream(request, limits, { onData, context });
      return null;
    }
    const answer = await server.send(request, limits);
    if (answer.status !== 200) throw server.refusal(answer, context);
    return answer.body;
  }

  /** The adapter of a call; `null` for the base. */
  protected adapterOf({ adapter }: { readonly adapter?: string | null } = {}): string | null {
    return adapter === undefined ? this.#adapter : adapter;
  }

  sample(request: SampleRequest, options: SampleOptions = {}): Promise<SampleResult> {
    const adapter = this.adapterOf(request.sampling);
    return adapter === null ? this.sampleOnce(request, options) : this.#sampleUnder(adapter, request, options);
  }

  /** Samples under the adapter that the request or the engine names. */
  protected abstract sampleOnce(request: SampleRequest, options: SampleOptions): Promise<SampleResult>;

  /** Samples under an adapter. The call begins at once, unless the server was lost and must be checked again. */
  async #sampleUnder(adapter: string, request: SampleRequest, options: SampleOptions): Promise<SampleResult> {
    const { signal } = options;
    const context = this.server.context("sample from", "");
    try {
      let result: SampleResult;
      if (this.#wasLost) {
        const prompt = request.prompt.fork(request.prompt.length);
        await this.checkAdapter(adapter, signal === undefined ? {} : { signal });
        result = await this.sampleOnce({ ...request, prompt }, options);
      } else result = await this.sampleOnce(request, options);
      return (await import("./adapters.ts")).underAdapter(adapter, result, context);
    } catch (error) {
      if (["unreachable", "connection-lost"].includes(codeOf(error) ?? "")) this.#wasLost = true;
      throw error;
    }
  }

  async checkAdapter(name: string, { signal }: CallOptions = {}): Promise<void> {
    const { compareWithBase } = await import("./adapters.ts");
    const sample = (request: SampleRequest): Promise<SampleResult> =>
      this.sampleOnce(request, signal === undefined ? {} : { signal });
    await compareWithBase(name, sample, this.server.context(`sample with adapter ${JSON.stringify(name)} from`, ""));
    this.#wasLost = false;
  }

  protected control(options: CallOptions): HttpCallOptions {
    return { signal: options.signal, timeoutMs: this.controlTimeoutMs };
  }

  /** A control call; resolves with any status. */
  protected call(
    path: string,
    body: string | null,
    options: CallOptions,
    { server = this.server, timeoutMs = this.controlTimeoutMs } = {},
  ): Promise<HttpResponse> {
    return server.send(server.request(path, body), { signal: options.signal, timeoutMs });
  }

  protected refusal(answer: HttpResponse, verb: string, path: string): AttributedError {
    return this.server.refusal(answer, this.server.context(verb, path));
  }

  /** Registers work that only `close` waits for; its outcome is ignored. */
  protected abandon(work: Promise<unknown>): void {
    const task = work.then(
      () => undefined,
      () => undefined,
    );
    this.#abandoned.add(task);
    void task.finally(() => this.#abandoned.delete(task));
  }
}

/** The body that `write` returns, or the failure of a request that cannot be sent. */
export function writeBody(context: FailureContext, prompt: TokenBuffer, write: () => RequestBody): RequestBody {
  const refuse = (state: string, cause?: unknown): AttributedError =>
    engineFailure(context, { code: "bad-request", retryable: false, state, cause });
  if (prompt.length === 0) throw refuse("the prompt is empty");
  try {
    return write();
  } catch (error) {
    throw refuse("sampling.extra cannot be written as JSON", error);
  }
}

/** True if a request may still be running on the server although its caller gave up. */
export function isGivenUp(error: unknown): boolean {
  return ["cancelled", "timeout"].includes(codeOf(error) ?? "");
}

/**
 * Facts about the served model as reported by the server, requested before a run, so that a wrong
 * folder or limit yields one clear message.
 */
export type ServerFacts = {
  /** Address of the server; safe to show. */
  readonly address: string;
  /** Maximum number of tokens of prompt and reply together; `null` if not reported. */
  readonly contextLength: number | null;
  /** The server's tokenization of a text; `null` if it has no tokenizer, or does not report it. */
  readonly tokens: readonly number[] | null;
};

/**
 * Reads the facts through the calls that SGLang and vLLM have in common. Rejects with an
 * `AttributedError` if the server cannot be reached; facts that it refuses, garbles or sends too
 * late are `null`.
 */
export async function readServerFacts(
  server: EngineServer,
  text: string,
  options: HttpCallOptions,
): Promise<ServerFacts> {
  const request = async (path: string, body: string | null): Promise<unknown> => {
    try {
      const answer = await server.send(server.request(path, body), options);
      return answer.status === 200 ? (JSON.parse(answer.body.toString()) as unknown) : null;
    } catch (error) {
      // A gateway may stall calls that it does not serve.
      if (["unreachable", "cancelled"].includes(codeOf(error) ?? "")) throw error;
      return null;
    }
  };
  const models = asFields(await request("/v1/models", null))?.["data"];
  const model = asFields(Array.isArray(models) ? models[0] : null);
  const tokenized = asFields(await request("/tokenize", JSON.stringify({ prompt: text, add_special_tokens: false })));
  const tokens = tokenized?.["tokens"];
  return {
    address: server.address,
    contextLength: readCount(tokenized?.["max_model_len"]) ?? readCount(model?.["max_model_len"]),
    tokens: Array.isArray(tokens) && tokens.every(isTokenId) ? tokens : null,
  };
}
