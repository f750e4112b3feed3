// The engine for vLLM servers, over the endpoints that take and return token ids. It classifies
// faults and never retries: retries belong to the loop. The chat endpoint is unsuitable, because it
// renders prompts itself.

import type { AdapterControl } from "../../core/adapters.ts";
import {
  type Engine,
  type EngineControl,
  type EngineLoadSource,
  type SampleOptions,
  type SampleRequest,
  type SampleResult,
  type SamplingParams,
} from "../../core/engine.ts";
import { isTruncated } from "../../core/truncation.ts";
import { ConfigurationError } from "../../core/failure.ts";
import type { ScoreOptions, Scorer, ScoreRequest, ScoreResult } from "../../core/scoring.ts";
import {
  type CallOptions,
  codeOf,
  engineFailure,
  type FailureContext,
  grammarConstraints,
  type GrowingBodies,
  ignoresStopTokens,
  isGivenUp,
  parseJson,
  readServerFacts,
  type ServerDialect,
  type ServerEngineOptions,
  type ServerFacts,
  withNativeConstraint,
  writeBody,
} from "../../http/index.ts";
import { subscribeToAbort } from "../../lib/deadline.ts";
import {
  completionsEndpoint,
  createBodies,
  type Endpoint,
  type EndpointName,
  findEndpoint,
  generateEndpoint,
  isDisabled,
  maxTokensOf,
  rawLogprobsWarning,
  vllmGrammar,
  vllmMaskProblem,
  type VllmWarning,
} from "./endpoints.ts";
import { ChoiceFold, type ExpectedReply, readReply } from "./read-reply.ts";
import { abandonTimeoutMs, LiveCall, VllmControl, type VllmPauseMode } from "./vllm-control.ts";

export type VllmEngineOptions = ServerEngineOptions & {
  /** Address of a server, e.g. `http://vllm:8000`. Must not be combined with `host` or `port`. */
  readonly url?: string;
  /** Default "127.0.0.1". */
  readonly host?: string;
  /** Default 8000. */
  readonly port?: number;
  /** Name of the served model; `adapter` has precedence. Default `null`: the server chooses. */
  readonly model?: string | null;
  /**
   * The endpoint for sampling. Default "auto": "generate" if the server has it, else "completions";
   * detected at the first call.
   */
  readonly endpoint?: EndpointName | "auto";
  /**
   * The server's --logprobs-mode: raw_logprobs (vLLM's default) or processed_logprobs. Nothing is
   * converted; with "raw", sampling that distorts the distribution calls `onWarning`. Default
   * "raw".
   */
  readonly logprobsMode?: "raw" | "processed";
  /** Called once per code. Default: emits a process warning. */
  readonly onWarning?: (warning: VllmWarning) => void;
  /**
   * Header by which a router keeps the calls of an episode on one server; `null` for none. Default
   * "x-session-id".
   */
  readonly routingHeader?: string | null;
  /**
   * Requests server-sent events; the results are the same, and an `abort` that closes the
   * connection keeps the tokens received so far. Default false.
   */
  readonly stream?: boolean;
};

const refused = (state: string): ConfigurationError =>
  new ConfigurationError(`Cannot create an engine for vLLM: ${state}.`);

/** Throws a `ConfigurationError` for invalid values from plain JavaScript or a configuration file. */
function checkChoices(options: VllmEngineOptions): void {
  const { endpoint = "auto", logprobsMode = "raw", routingHeader = null, model = null } = options;
  if (!["auto", "generate", "completions"].includes(endpoint)) {
    throw refused(`endpoint is ${JSON.stringify(endpoint)}, expected "auto", "generate" or "completions"`);
  }
  if (!["raw", "processed"].includes(logprobsMode)) {
    throw refused(`logprobsMode is ${JSON.stringify(logprobsMode)}, expected "raw" or "processed"`);
  }
  if (routingHeader !== null && !/^[A-Za-z0-9-]+$/.test(routingHeader)) {
    throw refused(`routingHeader is ${JSON.stringify(routingHeader)}, expected the name of a header`);
  }
  if (model === "") throw refused("model is empty, expected the name of a served model or null");
}

/** The default `onWarning`. */
function warnProcess({ code, message }: VllmWarning): void {
  process.emitWarning(message, { type: "VllmWarning", code });
}

/** Phrases by which vLLM, old and new, reports errors that an HTTP status does not distinguish. */
export const vllmDialect: ServerDialect = {
  product: "vLLM",
  // The OpenAI layer writes "context length", the engine below it "model length", and some proxies
  // send the code.
  isContextOverflow: (message) =>
    /context length|maximum model length|maximum input length|context_length_exceeded/i.test(message),
  isOverload: () => false,
  isDuplicate: (message) => /request id \S+ already/i.test(message),
  isDisabled,
  hasNoServer: () => false,
  remedy: ({ status, message }) => {
    if (isDisabled(message)) return "do that, or sample from the endpoint of completions";
    if (status !== 404) return null;
    // On a known path, a "not found" about a model means that the model name was refused.
    return /model/i.test(message)
      ? "give the name under which the server serves the model, or load the adapter under this name"
      : "check that the address is a vLLM server";
  },
};

/** The engine, with the operations that only vLLM has. */
export interface VllmEngine extends Engine, EngineControl, EngineLoadSource, AdapterControl {
  score: Scorer["score"];
  /** Address that requests go to; safe to show. */
  readonly address: string;
  /** The endpoint for sampling; `null` until the first call has detected it. */
  readonly endpoint: EndpointName | null;
  /**
   * Mode "retract" is always refused, because vLLM does not support it. "wait" resolves when
   * running requests have ended.
   */
  pause(mode: VllmPauseMode): Promise<void>;
  isReady(options?: { readonly signal?: AbortSignal }): Promise<boolean>;
  isPaused(options?: { readonly signal?: AbortSignal }): Promise<boolean>;
  /** Facts about the model that the server reports; `text` is tokenized. */
  serverFacts(text: string, options?: { readonly signal?: AbortSignal }): Promise<readonly ServerFacts[]>;
  /**
   * Sets the version of the weights that the server has now, as known to the trainer that loaded
   * them: replies of vLLM do not name it. Spans get the last version set before dispatch and the
   * last one before the reply.
   */
  setWeightVersion(version: string | null): void;
  /**
   * Sets the version like `setWeightVersion`, then requests the server's own version, which takes
   * precedence if it has one.
   */
  reportWeightVersion(version: string): Promise<readonly (string | null)[]>;
}

/**
 * Creates an engine. Sends nothing before the first call. Throws a `ConfigurationError` for an
 * invalid address, key or choice.
 *
 * `weightVersion()` is the server's version if it has one (the newest do), else that of
 * `setWeightVersion`; `null` before both, and then spans have no version either.
 *
 * @example
 * const engine = createVllmEngine({ url: "http://vllm:8000", logprobsMode: "processed" });
 */
export function createVllmEngine(options: VllmEngineOptions = {}): VllmEngine {
  checkChoices(options);
  return new Vllm(options);
}

/** An endpoint with its request bodies. */
type Writer = { readonly endpoint: Endpoint; readonly bodies: GrowingBodies };

type Expected = ExpectedReply & { readonly knownBefore: number };

class Vllm extends VllmControl implements VllmEngine {
  readonly name = "vllm";
  readonly constraints = grammarConstraints;
  readonly #model: string | null;
  readonly #routingHeader: string | null;
  readonly #streams: boolean;
  /** True if logprobs are those after temperature and truncation. */
  readonly #isProcessed: boolean;
  /** `null` if there is nothing to warn about, or the warning was given. */
  #onWarning: ((warning: VllmWarning) => void) | null;
  /** `null` until detected. */
  #writer: Writer | null;
  #search: Promise<Writer> | null = null;

  constructor(options: VllmEngineOptions) {
    super(options, { dialect: vllmDialect, defaultPort: 8000, endpoints: /\/(v1|inference)(\/.*)?$/s });
    const { endpoint = "auto", model = null, routingHeader = "x-session-id", stream = false } = options;
    const named = endpoint === "generate" ? generateEndpoint : completionsEndpoint;
    this.#writer = endpoint === "auto" ? null : writerOf(named);
    this.#model = model;
    this.#routingHeader = routingHeader;
    this.#streams = stream;
    this.#isProcessed = options.logprobsMode === "processed";
    this.#onWarning = options.logprobsMode === "processed" ? null : (options.onWarning ?? warnProcess);
  }

  get endpoint(): EndpointName | null {
    return this.#writer?.endpoint.name ?? null;
  }

  override sample(request: SampleRequest, options: SampleOptions = {}): Promise<SampleResult> {
    this.#warn(request);
    return super.sample(request, options);
  }

  protected async sampleOnce(request: SampleRequest, options: SampleOptions): Promise<SampleResult> {
    if (request.constraint) return this.sampleOnce(withNativeConstraint(request, vllmGrammar), options);
    const { signal, onTokens } = options;
    const context = this.server.context("sample from", this.#writer?.endpoint.path ?? "");
    if (request.prompt.length === 0) {
      throw engineFailure(context, { code: "bad-request", retryable: false, state: "the prompt is empty" });
    }
    const call = new LiveCall(request.requestId);
    this.calls.add(call);
    const leave = signal === undefined ? null : onAbort(signal, () => call.abort());
    try {
      if (this.#writer !== null) return await this.#sample(request, { writer: this.#writer, call, onTokens });
      // The prompt may grow while the endpoint is detected, so the request uses a fork of its
      // current state.
      const prompt = request.prompt.fork(request.prompt.length);
      request.prompt.whenClosed(() => prompt.close());
      const writer = await this.#find(call.signal, context);
      return await this.#sample({ ...request, prompt }, { writer, call, onTokens });
    } catch (error) {
      // The call was aborted before anything was sent.
      if (!call.isEnded || codeOf(error) !== "cancelled") throw error;
      return this.#aborted(emptyAbort, this.#expect(request), context);
    } finally {
      leave?.();
      call.cancelTimer?.();
      this.calls.delete(call);
    }
  }

  samplingMaskProblem(sampling: SamplingParams): string | null {
    return vllmMaskProblem(sampling, { isProcessed: this.#isProcessed, endpoint: this.endpoint });
  }

  async score(request: ScoreRequest, { signal }: ScoreOptions = {}): Promise<ScoreResult> {
    const { readScoreReply, scoreBody } = await import("./score.ts");
    const unsent = this.server.context("score tokens with", "");
    const { endpoint } = this.#writer ?? (await this.#find(signal ?? new AbortController().signal, unsent));
    const context = this.server.context("score tokens with", endpoint.path);
    const model = this.adapterOf() ?? this.#model;
    const content = scoreBody(request, { endpoint, model, vocabularySize: this.vocabularySize }, context);
    const wasCancelledBefore = signal?.aborted === true;
    try {
      const routing = { header: this.#routingHeader, key: request.routingKey };
      const body = await this.exchange(endpoint.path, content, { signal, routing, onData: null, context });
      return readScoreReply(body ?? Buffer.alloc(0), request, { version: this.version, context });
    } catch (error) {
      if (isGivenUp(error) && !wasCancelledBefore) this.abandon(this.abortById(request.requestId, abandonTimeoutMs));
      throw error;
    }
  }

  async serverFacts(text: string, { signal }: CallOptions = {}): Promise<readonly ServerFacts[]> {
    return [await readServerFacts(this.server, text, this.control({ signal }))];
  }

  async weightVersion(options?: CallOptions): Promise<string | null> {
    await this.#readVersion(options);
    return this.version;
  }

  /** The version that the server reports. */
  async #readVersion(options?: CallOptions): Promise<string | null> {
    let named: string | null = null;
    await this.refreshVersion(
      async () => (named = await this.requestVersion(options)),
      (version) => {
        if (version !== null) this.learnVersion(version);
      },
    );
    return named;
  }

  setWeightVersion(version: string | null): void {
    this.learnVersion(version);
  }

  async reportWeightVersion(version: string): Promise<readonly (string | null)[]> {
    this.learnVersion(version);
    return [await this.#readVersion()];
  }

  async #sample(
    request: SampleRequest,
    input: {
      readonly writer: Writer;
      readonly call: LiveCall;
      readonly onTokens: SampleOptions["onTokens"] | undefined;
    },
  ): Promise<SampleResult> {
    const { writer, call, onTokens } = input;
    const { endpoint, bodies } = writer;
    const { prompt, routingKey } = request;
    const context = this.server.context("sample from", endpoint.path);
    const streams = this.#streams || onTokens !== undefined;
    const adapter = this.adapterOf(request.sampling);
    const options = { model: adapter ?? this.#model, stream: streams };
    const body = writeBody(context, prompt, () => bodies.write(prompt, endpoint.fields(request, options)));
    const expected = this.#expect(request);
    const wasCancelledBefore = call.signal.aborted;
    const fold = streams ? new ChoiceFold(expected.maxTokens, context, onTokens) : null;
    try {
      const bytes = await this.exchange(endpoint.path, body.bytes, {
        signal: call.signal,
        routing: { header: this.#routingHeader, key: routingKey },
        onData: fold === null ? null : (data) => fold.take(data),
        context,
      });
      body.release();
      const value = bytes === null ? fold?.whole() : parseJson(bytes, context);
      return await this.#complete(request, value, { isAborted: fold?.saidFinish === false, expected, context });
    } catch (error) {
      if (call.isEnded && codeOf(error) === "cancelled") {
        return this.#complete(request, fold?.aborted() ?? emptyAbort, { isAborted: true, expected, context });
      }
      // Closing the connection ends the request anyway, so a failure to abort it is ignored.
      if (isGivenUp(error) && !wasCancelledBefore) this.abandon(this.abortById(request.requestId, abandonTimeoutMs));
      throw error;
    }
  }

  #expect(request: SampleRequest): Expected {
    return {
      knownBefore: this.versionCount,
      // A fork, because the caller may extend the prompt once the call is cancelled.
      prompt: request.prompt.fork(request.prompt.length),
      promptTokens: request.prompt.length,
      stopTokenIds: ignoresStopTokens(request.sampling.extra) ? [] : request.stopTokenIds,
      vocabularySize: this.vocabularySize,
      maxTokens: maxTokensOf(request),
      adapter: this.adapterOf(request.sampling),
      dispatchVersion: this.version,
    };
  }

  #read(value: unknown, expected: Expected, context: FailureContext): SampleResult {
    const result = readReply(value, expected, { version: this.version, context });
    const version = result.weightSpans.at(-1)?.reply ?? this.version;
    // A version learned since the request was sent is newer than a late reply.
    if (version !== this.version && expected.knownBefore === this.versionCount) this.learnVersion(version);
    return result;
  }

  /** The result of a reply, with the parts besides tokens that were requested. */
  async #complete(
    request: SampleRequest,
    value: unknown,
    input: { readonly isAborted: boolean; readonly expected: Expected; readonly context: FailureContext },
  ): Promise<SampleResult> {
    const { isAborted, expected, context } = input;
    const hasExperts = (request.routedExpertsFrom ?? null) !== null;
    // Experts come with the end, so tokens before an abort have none.
    const reply = isAborted && hasExperts ? emptyAbort : value;
    const read = isAborted ? this.#aborted(reply, expected, context) : this.#read(reply, expected, context);
    const result = this.#isProcessed && isTruncated(request.sampling) ? { ...read, isRenormalized: true } : read;
    if (!hasExperts && request.samplingMask !== true) return result;
    const { withExtraOutputs } = await import("./extra-outputs.ts");
    return withExtraOutputs(result, reply, { request, vocabularySize: this.vocabularySize, context });
  }

  /** The result with the tokens received before an abort that the server did not report. */
  #aborted(value: unknown, expected: Expected, context: FailureContext): SampleResult {
    const result = this.#read(value, expected, context);
    return { ...result, finish: { reason: "abort", matched: null, raw: null } };
  }

  /** One detection for all waiting calls; the next call repeats a failed one. */
  #find(signal: AbortSignal, context: FailureContext): Promise<Writer> {
    this.#search ??= findEndpoint(this.server, { timeoutMs: this.controlTimeoutMs })
      .then((endpoint) => (this.#writer ??= writerOf(endpoint)))
      .finally(() => {
        this.#search = null;
      });
    return orCancelled(this.#search, signal, context);
  }

  #warn(request: SampleRequest): void {
    if (this.#onWarning === null) return;
    const warning = rawLogprobsWarning(request.sampling);
    if (warning === null) return;
    const onWarning = this.#onWarning;
    this.#onWarning = null;
    onWarning(warning);
  }
}

function writerOf(endpoint: Endpoint): Writer {
  return { endpoint, bodies: createBodies(endpoint) };
}

/** The answer to an aborted request without tokens. */
const emptyAbort = { choices: [{ finish_reason: "abort", token_ids: [], logprobs: null }] };

/**
 * Calls back when the signal aborts (at once if it has already), until the returned function is
 * called.
 */
function onAbort(signal: AbortSignal, callback: () => void): () => void {
  if (!signal.aborted) return subscribeToAbort(signal, callback);
  callback();
  return () => undefined;
}

/** Settles like the work, or rejects as soon as the signal aborts. */
function orCancelled<T>(work: Promise<T>, signal: AbortSignal, context: FailureContext): Promise<T> {
  return new Promise((resolve, reject) => {
    const leave = onAbort(signal, () =>
      reject(engineFailure(context, { code: "cancelled", retryable: false, state: "the caller cancelled it" })),
    );
    void work.then(resolve, reject).finally(leave);
  });
}
