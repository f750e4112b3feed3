// The engine for SGLang servers and routers, over their native token-in, token-out endpoint. Classifies faults and never
// retries: attempts belong to the loop. Not for the OpenAI-compatible endpoints, which hide token ids.

import { AttributedError } from "../../core/failure.ts";
import type {
  Engine,
  EngineControl,
  SampleRequest,
  SampleResult,
  EngineLoad,
  EngineLoadSource,
} from "../../core/engine.ts";
import {
  badReply,
  createHttpPool,
  engineFailure,
  EngineServer,
  headerText,
  ignoresStopTokens,
  readEventStream,
  requireDuration,
  resolveAddress,
  type FailureContext,
  type HttpClient,
  type LentBody,
  type ServerFacts,
} from "../../http/index.ts";
import { type Clock, systemClock } from "../../lib/clock.ts";
import { parseReply, readGenerateReply, type ParsedReply } from "./generate-reply.ts";
import { GenerateBodyWriter, toGenerateFields, type GenerateFields } from "./generate-request.ts";
import { foldGenerateStream } from "./generate-stream.ts";
import { SglangControl } from "./sglang-control.ts";
import { sglangDialect } from "./sglang-dialect.ts";
import type { SglangEngineOptions } from "./sglang-options.ts";
import type { SglangWorker } from "./workers.ts";

/** The engine, and what only SGLang has. */
export interface SglangEngine extends Engine, EngineControl, EngineLoadSource {
  /** Where requests go; safe to show. */
  readonly address: string;
  /** Whether it takes requests: a router that has a healthy worker, or a server that is healthy and not paused. */
  isReady(options?: { readonly signal?: AbortSignal }): Promise<boolean>;
  /**
   * What the server says, or every worker behind a router. While workers differ: the version known before where one of them
   * still has it, else `null`, not known.
   */
  weightVersion(options?: { readonly signal?: AbortSignal }): Promise<string | null>;
  reportWeightVersion(version: string): Promise<void>;
  /**
   * Names among sampling parameters (those of `sampling.extra`) that a router leaves out in silence; empty without a router. A
   * call with such a parameter is refused: what it asks for would not be sampled.
   */
  droppedParameters(names: readonly string[], options?: { readonly signal?: AbortSignal }): Promise<readonly string[]>;
  /** What the server, or each worker behind a router, says of its model; `text` is what it cuts into tokens. */
  serverFacts(text: string, options?: { readonly signal?: AbortSignal }): Promise<readonly ServerFacts[]>;
  /** The workers behind a router, asked anew; the server itself when it is no router. */
  workers(options?: { readonly signal?: AbortSignal }): Promise<readonly SglangWorker[]>;
}

/**
 * Makes an engine. Sends nothing before the first call. Throws a `ConfigurationError` for an address, key or number that
 * cannot work.
 *
 * The version at dispatch is the last one that `weightVersion()`, `reportWeightVersion()` or a reply named; `null` before
 * them. A reply counts only while nothing else was heard since its request left, so that a late one never moves it back, and
 * not behind several workers: these are asked when a reply names another version. A server that was never given a version
 * calls it "default", and so do we.
 *
 * @example
 * const engine = createSglangEngine({ host: args.sglang_router_ip, port: args.sglang_router_port });
 */
export function createSglangEngine(options: SglangEngineOptions = {}): SglangEngine {
  const { apiKey = null, timeoutMs = 1_800_000, controlTimeoutMs = 30_000, stream = false } = options;
  const { connections = 512, clock = systemClock, firstByteTimeoutMs = null, connectTimeoutMs = 10_000 } = options;
  const { product } = sglangDialect;
  const base = resolveAddress(options, { product, defaultPort: 30_000, endpoints: /\/(generate|v1)(\/.*)?$/ });
  const durations = { timeoutMs, firstByteTimeoutMs };
  for (const [name, ms] of Object.entries(durations)) if (ms !== null) requireDuration(name, ms, product);
  requireDuration("controlTimeoutMs", controlTimeoutMs, product);
  const pool = options.http ?? createHttpPool({ boundary: "engine", connections, connectTimeoutMs, clock });
  const server = new EngineServer({ base, apiKey, http: pool, dialect: sglangDialect });
  return new Sglang({
    server,
    control: new SglangControl({ server, timeoutMs: controlTimeoutMs, clock }),
    clock,
    ...durations,
    stream,
    vocabularySize: options.vocabularySize ?? null,
    ownPool: options.http === undefined ? pool : null,
  });
}

type Parts = {
  readonly server: EngineServer;
  readonly control: SglangControl;
  readonly clock: Clock;
  readonly timeoutMs: number | null;
  readonly firstByteTimeoutMs: number | null;
  readonly stream: boolean;
  readonly vocabularySize: number | null;
  readonly ownPool: HttpClient | null;
};

class Sglang implements SglangEngine {
  readonly name = "sglang";
  readonly address: string;
  readonly #parts: Parts;
  readonly #bodies = new GenerateBodyWriter();
  /** As it was heard last; `null`: not known. */
  #version: string | null = null;
  /** Times that it was heard. */
  #heard = 0;
  #hasOneServer = true;
  /** Times that the servers were asked, and the latest question that they answered. */
  #questions = 0;
  #answered = 0;
  #asking: Promise<unknown> = Promise.resolve();
  #askAt = -Infinity;
  /** Names of sampling parameters that are known to reach the server. */
  readonly #passedOn = new Set<string>();

  constructor(parts: Parts) {
    this.#parts = parts;
    this.address = parts.server.address;
  }

  async sample(request: SampleRequest, options: { readonly signal?: AbortSignal } = {}): Promise<SampleResult> {
    const { server, control, stream } = this.#parts;
    const context = server.context("sample from", "/generate");
    const fields = toGenerateFields(request, stream);
    // Everything of the prompt is read before the first wait: it may grow as soon as the caller stops waiting.
    const body = this.#lend(request, fields, context);
    const expected = {
      promptTokens: request.prompt.length,
      maxTokens: maxNewTokensOf(fields),
      stopTokenIds: ignoresStopTokens(request.sampling.extra) ? [] : request.stopTokenIds,
      vocabularySize: this.#parts.vocabularySize,
      dispatchVersion: this.#version,
    };
    const heardBefore = this.#heard;
    const { signal } = options;
    const wasCancelledBefore = signal?.aborted === true;
    try {
      await this.#refuseDropped(request, { signal, context });
      const reply = await this.#exchange(body.bytes, { request, signal, maxTokens: expected.maxTokens, context });
      body.giveBack();
      const result = readGenerateReply(reply, expected, context);
      this.#hearReply(result.weightSpans.at(-1)?.reply ?? null, heardBefore);
      return result;
    } catch (error) {
      if (isGivenUp(error) && !wasCancelledBefore) control.abandon(request.requestId);
      // The parser of event streams knows no boundary.
      throw error instanceof RangeError ? badReply(context, error.message) : error;
    }
  }

  health(options?: { readonly signal?: AbortSignal }): Promise<boolean> {
    return this.#parts.control.health(options);
  }

  isReady(options?: { readonly signal?: AbortSignal }): Promise<boolean> {
    return this.#parts.control.isReady(options);
  }

  droppedParameters(names: readonly string[], options?: { readonly signal?: AbortSignal }): Promise<readonly string[]> {
    return this.#parts.control.droppedParameters(names, options);
  }

  async weightVersion(options?: { readonly signal?: AbortSignal }): Promise<string | null> {
    const question = ++this.#questions;
    const versions = await this.#parts.control.weightVersions(options);
    const [version = null] = versions;
    // Whoever asked later has been answered: this is how it was before.
    if (question < this.#answered) return this.#version;
    this.#answered = question;
    this.#hasOneServer = versions.length === 1;
    // Of workers that differ, nobody can tell which is behind, but that the version known before is.
    if (versions.every((other) => other === version)) this.#hear(version);
    else if (!versions.includes(this.#version)) this.#hear(null);
    return this.#version;
  }

  async reportWeightVersion(): Promise<void> {
    try {
      await this.weightVersion();
    } catch (error) {
      this.#hear(null);
      throw error;
    }
  }

  serverFacts(text: string, options?: { readonly signal?: AbortSignal }): Promise<readonly ServerFacts[]> {
    return this.#parts.control.serverFacts(text, options);
  }

  load(options?: { readonly signal?: AbortSignal }): Promise<EngineLoad | null> {
    return this.#parts.control.load(options);
  }

  workers(options?: { readonly signal?: AbortSignal }): Promise<readonly SglangWorker[]> {
    return this.#parts.control.workers(options);
  }

  abort(requestId: string): Promise<void> {
    return this.#parts.control.abort(requestId);
  }

  pause(mode: "abort" | "retract" | "in-place"): Promise<void> {
    return this.#parts.control.pause(mode);
  }

  continue(): Promise<void> {
    return this.#parts.control.continue();
  }

  async close(): Promise<void> {
    await this.#parts.control.settled();
    await this.#asking;
    await this.#parts.ownPool?.close();
  }

  #hear(version: string | null): void {
    this.#version = version;
    this.#heard++;
  }

  #hearReply(version: string | null, heardBefore: number): void {
    if (version === null || version === this.#version || heardBefore !== this.#heard) return;
    if (this.#hasOneServer) return this.#hear(version);
    const now = this.#parts.clock.now();
    if (now < this.#askAt) return;
    this.#askAt = now + askAgainMs;
    this.#asking = this.weightVersion().catch(() => undefined);
  }

  /** Asks whether the server is a router once, and only for parameters that a router would not pass on. */
  async #refuseDropped(
    request: SampleRequest,
    { signal, context }: { readonly signal: AbortSignal | undefined; readonly context: FailureContext },
  ): Promise<void> {
    const names = Object.keys(request.sampling.extra);
    const key = names.join();
    if (names.length === 0 || this.#passedOn.has(key)) return;
    const dropped = await this.#parts.control.droppedParameters(names, signal === undefined ? {} : { signal });
    if (dropped.length === 0) this.#passedOn.add(key);
    else throw engineFailure(context, { code: "bad-request", retryable: false, ...droppedWords(dropped) });
  }

  async #exchange(
    body: Buffer,
    input: {
      readonly request: SampleRequest;
      readonly signal: AbortSignal | undefined;
      readonly maxTokens: number | null;
      readonly context: FailureContext;
    },
  ): Promise<ParsedReply> {
    const { server, timeoutMs, firstByteTimeoutMs, stream } = this.#parts;
    const { request, signal, maxTokens, context } = input;
    const http = server.request("/generate", body, routingHeader(request.routingKey));
    const call = { signal, timeoutMs, firstByteTimeoutMs };
    if (stream) {
      const chunks = await server.openStream(http, call, context);
      return { value: await foldGenerateStream(readEventStream(chunks), { maxTokens }, context), logged: null };
    }
    const answer = await server.send(http, call);
    if (answer.status !== 200) throw server.refusal(answer, context);
    return parseReply(answer.body, context);
  }

  #lend(request: SampleRequest, fields: GenerateFields, context: FailureContext): LentBody {
    const refuse = (state: string, cause?: unknown): AttributedError =>
      engineFailure(context, { code: "bad-request", retryable: false, state, cause });
    if (request.prompt.length === 0) throw refuse("the prompt is empty");
    try {
      return this.#bodies.lend(request.prompt, fields);
    } catch (error) {
      throw refuse("sampling.extra cannot be written as JSON", error);
    }
  }
}

/** While workers get new weights one after the other, each reply of a new one would ask them all. */
const askAgainMs = 1000;

/** Why parameters that a router drops are refused, and what to do. */
export function droppedWords(names: readonly string[]): { readonly state: string; readonly remedy: string } {
  return {
    state: `its router leaves ${names.join(", ")} out in silence`,
    remedy: "leave them out of sampling.extra (--sampling-extra), or name the servers behind the router",
  };
}

/** The bound that the reply must keep, whoever set it. */
function maxNewTokensOf(fields: GenerateFields): number | null {
  const most = fields.sampling_params["max_new_tokens"];
  return typeof most === "number" ? most : null;
}

/** Sticky routing: the same key goes to the same worker. Keys that no header can carry are escaped. */
function routingHeader(key: string | null): Readonly<Record<string, string>> {
  if (key === null || key === "") return {};
  return { "x-smg-routing-key": headerText(key) };
}

/** True when a request may still be running on the server although nobody waits for it. */
function isGivenUp(error: unknown): boolean {
  return error instanceof AttributedError && ["cancelled", "timeout"].includes(error.failure.code);
}
