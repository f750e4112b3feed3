// The engine for SGLang servers and routers, over their native token-in, token-out endpoint. It
// classifies faults and never retries: retries belong to the loop. The OpenAI-compatible endpoints
// are unsuitable, because they hide token ids.

import type { AdapterControl } from "../../core/adapters.ts";
import type {
  Engine,
  EngineControl,
  EngineLoadSource,
  SampleOptions,
  SampleRequest,
  SampleResult,
  SamplingParams,
} from "../../core/engine.ts";
import { truncationOf } from "../../core/truncation.ts";
import type { ScoreOptions, Scorer, ScoreRequest, ScoreResult } from "../../core/scoring.ts";
import {
  type CallOptions,
  engineFailure,
  type FailureContext,
  grammarConstraints,
  ignoresStopTokens,
  isGivenUp,
  type ServerDialect,
  type ServerEngineOptions,
  type ServerFacts,
  withNativeConstraint,
  writeBody,
} from "../../http/index.ts";
import { GenerateFold, type ParsedReply, parseReply, readGenerateReply, readRoutedExperts } from "./generate-reply.ts";
import { createGenerateBodies, type GenerateFields, sglangGrammar, toGenerateFields } from "./generate-request.ts";
import { SglangControl, type SglangWorker } from "./sglang-control.ts";

export type SglangEngineOptions = ServerEngineOptions & {
  /**
   * Address of a server or router, e.g. `http://router:30000`. Must not be combined with `host` or
   * `port`.
   */
  readonly url?: string;
  /** The same value as slime's `sglang_router_ip`. Default "127.0.0.1". */
  readonly host?: string;
  /** The same value as slime's `sglang_router_port`. Default 30000. */
  readonly port?: number;
  /**
   * Requests server-sent events; the results are the same. Costs more with servers that repeat the
   * text so far. Default false.
   */
  readonly stream?: boolean;
};

/** Phrases by which SGLang and its router report errors that an HTTP status does not distinguish. */
export const sglangDialect: ServerDialect = {
  product: "SGLang",
  isContextOverflow: (message) => /context length|maximum allowed length/i.test(message),
  isOverload: (message) =>
    /^(The request queue is full|Request (waiting|running) timeout reached|The request is aborted by a higher priority)/.test(
      message,
    ),
  isDuplicate: (message) => /duplicate request id/i.test(message),
  isDisabled: () => false,
  hasNoServer: (message) => /no_available_workers/.test(message),
  remedy: ({ status, message }) => {
    if (/LoRA/.test(message)) return "load the adapter on the server, started with --enable-lora, under this name";
    if (status === 404) return "check that the address is an SGLang server or router";
    return status === 500 && message.trim() === "Internal Server Error"
      ? "an unknown name in sampling.extra has this effect, and the server's log says more"
      : null;
  },
};

/** The engine, with the operations that only SGLang has. */
export interface SglangEngine extends Engine, EngineControl, EngineLoadSource, AdapterControl {
  score: Scorer["score"];
  /** Address that requests go to; safe to show. */
  readonly address: string;
  /**
   * True if it accepts requests: a router with a healthy worker, or a server that is healthy and
   * not paused.
   */
  isReady(options?: { readonly signal?: AbortSignal }): Promise<boolean>;
  /**
   * The version that the server, or every worker behind a router, reports. While workers differ, it
   * is the last known version if a worker still has it, else `null`.
   */
  weightVersion(options?: { readonly signal?: AbortSignal }): Promise<string | null>;
  reportWeightVersion(version: string): Promise<readonly (string | null)[]>;
  /**
   * Those of the named sampling parameters (from `sampling.extra`) that a router silently drops;
   * empty without a router. A call with such a parameter is refused, because the server would not
   * sample with it.
   */
  droppedParameters(names: readonly string[], options?: { readonly signal?: AbortSignal }): Promise<readonly string[]>;
  /**
   * Facts about the model that the server, or each worker behind a router, reports; `text` is
   * tokenized.
   */
  serverFacts(text: string, options?: { readonly signal?: AbortSignal }): Promise<readonly ServerFacts[]>;
  /** The workers that a router lists now; only the server itself if it is not a router. */
  workers(options?: { readonly signal?: AbortSignal }): Promise<readonly SglangWorker[]>;
}

/**
 * Creates an engine. Sends nothing before the first call. Throws a `ConfigurationError` for an
 * invalid address, key or number.
 *
 * The version at dispatch is the last one from `weightVersion()`, `reportWeightVersion()` or a
 * reply; `null` before any of these. The version in a reply counts only if no other version was
 * learned since its request was sent, so a late reply never moves it back. With several workers it
 * does not count: if a reply names another version, the versions of all workers are requested. A
 * server that was never given a version calls it "default", and so does the engine.
 *
 * @example
 * const engine = createSglangEngine({ host: args.sglang_router_ip, port: args.sglang_router_port });
 */
export function createSglangEngine(options: SglangEngineOptions = {}): SglangEngine {
  return new Sglang(options);
}

class Sglang extends SglangControl implements SglangEngine {
  readonly name = "sglang";
  readonly constraints = grammarConstraints;
  readonly #streams: boolean;
  readonly #bodies = createGenerateBodies();
  #hasOneServer = true;
  /** The request for the versions that `close` waits for, and the earliest time of the next one. */
  #refresh: Promise<unknown> = Promise.resolve();
  #refreshAt = -Infinity;
  /** Names of sampling parameters that are known to reach the server. */
  readonly #forwarded = new Set<string>();

  constructor(options: SglangEngineOptions) {
    super(options, { dialect: sglangDialect, defaultPort: 30_000, endpoints: /\/(generate|v1)(\/.*)?$/s });
    this.#streams = options.stream ?? false;
  }

  protected async sampleOnce(request: SampleRequest, options: SampleOptions): Promise<SampleResult> {
    if (request.constraint) return this.sampleOnce(withNativeConstraint(request, sglangGrammar), options);
    const { signal, onTokens } = options;
    const context = this.server.context("sample from", "/generate");
    const streams = this.#streams || onTokens !== undefined;
    const fields = toGenerateFields(request, streams, this.adapterOf(request.sampling));
    // The whole prompt is read before the first await, because it may grow as soon as the caller
    // stops waiting.
    const body = writeBody(context, request.prompt, () => this.#bodies.write(request.prompt, fields));
    const expected = {
      promptTokens: request.prompt.length,
      maxTokens: maxNewTokensOf(fields),
      stopTokenIds: ignoresStopTokens(request.sampling.extra) ? [] : request.stopTokenIds,
      vocabularySize: this.vocabularySize,
      dispatchVersion: this.version,
    };
    const knownBefore = this.versionCount;
    const wasCancelledBefore = signal?.aborted === true;
    try {
      await this.#refuseDropped(request, { signal, context });
      const { routingKey } = request;
      const reply = await this.#generate(body.bytes, {
        signal,
        routingKey,
        maxTokens: expected.maxTokens,
        context,
        onTokens,
        streams,
      });
      body.release();
      const result = readGenerateReply(reply, expected, context);
      this.#learnFrom(result.weightSpans.at(-1)?.reply ?? null, knownBefore);
      const masked =
        request.samplingMask === true
          ? (await import("./sampling-mask.ts")).withSamplingMask(result, reply, {
              vocabularySize: this.vocabularySize,
              context,
            })
          : result;
      if ((request.routedExpertsFrom ?? null) === null) return masked;
      return { ...masked, routedExpertBytes: readRoutedExperts(reply, context) };
    } catch (error) {
      if (isGivenUp(error) && !wasCancelledBefore) this.abandon(this.abortOnServers(request.requestId));
      throw error;
    }
  }

  samplingMaskProblem(sampling: SamplingParams): string | null {
    const { temperature, topK } = truncationOf(sampling);
    if (temperature === 0 || (topK >= 1 && topK <= mostMaskTopK)) return null;
    return `SGLang reports kept ids only for a top-k of 1 to ${mostMaskTopK}, and top-k is ${topK}; set --top-k, besides --top-p and --min-p if you use them`;
  }

  async score(request: ScoreRequest, { signal }: ScoreOptions = {}): Promise<ScoreResult> {
    const { readScoreReply, scoreBody } = await import("./score.ts");
    const context = this.server.context("score tokens with", "/generate");
    const content = scoreBody(request, { vocabularySize: this.vocabularySize, adapter: this.adapterOf() }, context);
    const wasCancelledBefore = signal?.aborted === true;
    try {
      const routing = { header: routingHeader, key: request.routingKey };
      const body = await this.exchange("/generate", content, { signal, routing, onData: null, context });
      return readScoreReply(body ?? Buffer.alloc(0), request, context);
    } catch (error) {
      if (isGivenUp(error) && !wasCancelledBefore) this.abandon(this.abortOnServers(request.requestId));
      throw error;
    }
  }

  async weightVersion(options?: CallOptions): Promise<string | null> {
    await this.#readVersions(options);
    return this.version;
  }

  async reportWeightVersion(): Promise<readonly (string | null)[]> {
    try {
      return await this.#readVersions();
    } catch (error) {
      this.learnVersion(null);
      throw error;
    }
  }

  /** Versions, one per server. */
  async #readVersions(options?: CallOptions): Promise<readonly (string | null)[]> {
    let named: readonly (string | null)[] = [];
    await this.refreshVersion(
      async () => (named = await this.weightVersions(options)),
      (versions) => {
        const [version = null] = versions;
        this.#hasOneServer = versions.length === 1;
        // If workers differ, the outdated ones are unknown, but the last known version is outdated.
        if (versions.every((other) => other === version)) this.learnVersion(version);
        else if (!versions.includes(this.version)) this.learnVersion(null);
      },
    );
    return named;
  }

  override async close(): Promise<void> {
    await this.#refresh;
    await super.close();
  }

  #learnFrom(version: string | null, knownBefore: number): void {
    if (version === null || version === this.version || knownBefore !== this.versionCount) return;
    if (this.#hasOneServer) return this.learnVersion(version);
    const now = this.clock.now();
    if (now < this.#refreshAt) return;
    this.#refreshAt = now + leastRefreshMs;
    this.#refresh = this.weightVersion().catch(() => undefined);
  }

  /**
   * Detects once whether the server is a router, and only for parameters that a router would not
   * forward.
   */
  async #refuseDropped(
    request: SampleRequest,
    { signal, context }: { readonly signal: AbortSignal | undefined; readonly context: FailureContext },
  ): Promise<void> {
    const names = Object.keys(request.sampling.extra);
    const key = names.join();
    if (names.length === 0 || this.#forwarded.has(key)) return;
    const dropped = await this.droppedParameters(names, { signal });
    if (dropped.length > 0) {
      throw engineFailure(context, {
        code: "bad-request",
        retryable: false,
        state: `its router leaves ${dropped.join(", ")} out in silence`,
        remedy: "leave them out of sampling.extra (--sampling-extra), or name the servers behind the router",
      });
    }
    this.#forwarded.add(key);
  }

  async #generate(
    body: Buffer,
    input: {
      readonly signal: AbortSignal | undefined;
      readonly routingKey: string | null;
      readonly maxTokens: number | null;
      readonly streams: boolean;
      readonly onTokens: SampleOptions["onTokens"] | undefined;
      readonly context: FailureContext;
    },
  ): Promise<ParsedReply> {
    const { signal, routingKey, maxTokens, streams, onTokens, context } = input;
    const fold = streams ? new GenerateFold(maxTokens, context, onTokens) : null;
    const bytes = await this.exchange("/generate", body, {
      signal,
      routing: { header: routingHeader, key: routingKey },
      onData: fold === null ? null : (data) => fold.take(data),
      context,
    });
    return bytes === null ? { value: fold?.whole(), logged: null } : parseReply(bytes, context);
  }
}

/** Header by which the router keeps calls with the same key on one worker. */
const routingHeader = "x-smg-routing-key";

/**
 * Minimum interval in milliseconds between requests for all versions: while workers get new weights
 * one after the other, each reply of an updated one would cause such a request.
 */
const leastRefreshMs = 1000;

/** Maximum `top_k` for which the server reports kept ids (its --sampling-mask-max-tokens). */
const mostMaskTopK = 4096;

/** The token limit that the reply must respect, from either place where it can be set. */
function maxNewTokensOf(fields: GenerateFields): number | null {
  const most = fields.sampling_params["max_new_tokens"];
  return typeof most === "number" ? most : null;
}
