// The engine for vLLM servers, over the endpoints that take token ids and give token ids. Classifies faults and never
// retries: attempts belong to the loop. Not for the chat endpoint, which renders prompts itself.

import type {
  Engine,
  EngineControl,
  SampleRequest,
  SampleResult,
  EngineLoad,
  EngineLoadSource,
} from "../../core/engine.ts";
import { AttributedError } from "../../core/failure.ts";
import {
  badReply,
  createHttpPool,
  engineFailure,
  EngineServer,
  headerText,
  ignoresStopTokens,
  parseJson,
  readEventStream,
  readServerFacts,
  requireDuration,
  resolveAddress,
  type FailureContext,
  type HttpClient,
  type ServerFacts,
} from "../../http/index.ts";
import { subscribeToAbort } from "../../lib/deadline.ts";
import { systemClock } from "../../lib/clock.ts";
import { BodyWriter } from "./body-writer.ts";
import { completionsEndpoint, generateEndpoint, maxTokensOf, type EndpointName } from "./endpoints.ts";
import { findEndpoint } from "./find-endpoint.ts";
import { LiveCalls, type LiveCall } from "./live-calls.ts";
import { rawLogprobsWarning, type VllmWarning } from "./logprobs-mode.ts";
import { readReply, type ExpectedReply } from "./read-reply.ts";
import { StreamFold } from "./stream-fold.ts";
import { VllmControl, type VllmPauseMode } from "./vllm-control.ts";
import { vllmDialect } from "./vllm-dialect.ts";
import { checkChoices, warnProcess, type VllmEngineOptions } from "./vllm-options.ts";

/** The engine, and what only vLLM has. */
export interface VllmEngine extends Engine, EngineControl, EngineLoadSource {
  /** Where requests go; safe to show. */
  readonly address: string;
  /** Where it samples; `null` until it was asked, which the first call does. */
  readonly endpoint: EndpointName | null;
  /** In mode "retract" always a refusal: vLLM has none. "wait" resolves when what runs has ended. */
  pause(mode: VllmPauseMode): Promise<void>;
  isReady(options?: { readonly signal?: AbortSignal }): Promise<boolean>;
  isPaused(options?: { readonly signal?: AbortSignal }): Promise<boolean>;
  /** What the server says of its model; `text` is what it cuts into tokens. */
  serverFacts(text: string, options?: { readonly signal?: AbortSignal }): Promise<readonly ServerFacts[]>;
  /**
   * Tells the engine which weights the server now has, as the trainer that loaded them knows: vLLM names none in a reply.
   * Spans have the version told last before dispatch and before the reply.
   */
  setWeightVersion(version: string | null): void;
  /** As `setWeightVersion`, and asks the server, whose own word counts more where it has one. */
  reportWeightVersion(version: string): Promise<void>;
}

/**
 * Makes an engine. Sends nothing before the first call. Throws a `ConfigurationError` for an address, key or choice that
 * cannot work.
 *
 * `weightVersion()` is the server's word where it has one (the newest do), else what `setWeightVersion` told; `null`
 * before both, and then spans have no version either.
 *
 * @example
 * const engine = createVllmEngine({ url: "http://vllm:8000", logprobsMode: "processed" });
 */
export function createVllmEngine(options: VllmEngineOptions = {}): VllmEngine {
  const { apiKey = null, timeoutMs = 1_800_000, controlTimeoutMs = 30_000, endpoint = "auto" } = options;
  const { connections = 512, clock = systemClock, firstByteTimeoutMs = null, connectTimeoutMs = 10_000 } = options;
  const { product } = vllmDialect;
  const endpoints = /\/(v1|inference)(\/.*)?$/;
  const base = resolveAddress(options, { product, defaultPort: 8000, endpoints });
  const durations = { timeoutMs, firstByteTimeoutMs };
  for (const [name, ms] of Object.entries(durations)) if (ms !== null) requireDuration(name, ms, product);
  requireDuration("controlTimeoutMs", controlTimeoutMs, product);
  checkChoices(options);
  const pool = options.http ?? createHttpPool({ boundary: "engine", connections, connectTimeoutMs, clock });
  const server = new EngineServer({ base, apiKey, http: pool, dialect: vllmDialect });
  const calls = new LiveCalls();
  return new Vllm({
    server,
    calls,
    control: new VllmControl({ server, timeoutMs: controlTimeoutMs, clock, calls }),
    writer:
      endpoint === "auto" ? null : new BodyWriter(endpoint === "generate" ? generateEndpoint : completionsEndpoint),
    model: options.model ?? null,
    routingHeader: options.routingHeader === undefined ? "x-session-id" : options.routingHeader,
    ...durations,
    controlTimeoutMs,
    stream: options.stream ?? false,
    vocabularySize: options.vocabularySize ?? null,
    onWarning: options.logprobsMode === "processed" ? null : (options.onWarning ?? warnProcess),
    ownPool: options.http === undefined ? pool : null,
  });
}

type Parts = {
  readonly server: EngineServer;
  readonly control: VllmControl;
  readonly calls: LiveCalls;
  /** `null`: to be found out. */
  readonly writer: BodyWriter | null;
  readonly model: string | null;
  readonly routingHeader: string | null;
  readonly timeoutMs: number | null;
  readonly firstByteTimeoutMs: number | null;
  readonly controlTimeoutMs: number;
  readonly stream: boolean;
  readonly vocabularySize: number | null;
  /** `null`: nothing to warn of. */
  readonly onWarning: ((warning: VllmWarning) => void) | null;
  readonly ownPool: HttpClient | null;
};

type Expected = ExpectedReply & { readonly heardBefore: number };

class Vllm implements VllmEngine {
  readonly name = "vllm";
  readonly address: string;
  readonly #parts: Parts;
  #writer: BodyWriter | null;
  #search: Promise<BodyWriter> | null = null;
  #version: string | null = null;
  /** Times that it was heard. */
  #heard = 0;
  /** Times that the server was asked, and the latest question that it answered. */
  #questions = 0;
  #answered = 0;
  #hasWarned = false;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#writer = parts.writer;
    this.address = parts.server.address;
  }

  get endpoint(): EndpointName | null {
    return this.#writer?.endpoint.name ?? null;
  }

  async sample(request: SampleRequest, options: { readonly signal?: AbortSignal } = {}): Promise<SampleResult> {
    const { server, calls } = this.#parts;
    const { signal } = options;
    const context = server.context("sample from", this.#writer?.endpoint.path ?? "");
    if (request.prompt.length === 0) throw refuse(context, "the prompt is empty");
    this.#warn(request);
    const call = calls.open(request.requestId);
    const cancel = (): void => call.cancel();
    if (signal?.aborted === true) cancel();
    const leave = signal === undefined || signal.aborted ? null : subscribeToAbort(signal, cancel);
    try {
      // The prompt may grow while the endpoint is looked for: what was asked for is kept.
      const asked =
        this.#writer === null ? { ...request, prompt: request.prompt.fork(request.prompt.length) } : request;
      if (asked !== request) request.prompt.whenClosed(() => asked.prompt.close());
      const writer = this.#writer ?? (await this.#find(call.signal, context));
      return await this.#sample(asked, { writer, call });
    } catch (error) {
      // Aborted before anything was sent.
      if (!call.isEnded || codeOf(error) !== "cancelled") throw error;
      return this.#aborted(noTokens, this.#expect(request), context);
    } finally {
      leave?.();
      calls.close(request.requestId, call);
    }
  }

  health(options?: { readonly signal?: AbortSignal }): Promise<boolean> {
    return this.#parts.control.health(options);
  }

  isReady(options?: { readonly signal?: AbortSignal }): Promise<boolean> {
    return this.#parts.control.isReady(options);
  }

  async serverFacts(text: string, options: { readonly signal?: AbortSignal } = {}): Promise<readonly ServerFacts[]> {
    const { server, controlTimeoutMs: timeoutMs } = this.#parts;
    return [await readServerFacts(server, text, { signal: options.signal, timeoutMs })];
  }

  load(options?: { readonly signal?: AbortSignal }): Promise<EngineLoad | null> {
    return this.#parts.control.load(options);
  }

  async weightVersion(options?: { readonly signal?: AbortSignal }): Promise<string | null> {
    const question = ++this.#questions;
    const version = await this.#parts.control.weightVersion(options);
    // Whoever asked later has been answered: this is how it was before.
    if (question < this.#answered) return this.#version;
    this.#answered = question;
    if (version !== null) this.setWeightVersion(version);
    return this.#version;
  }

  setWeightVersion(version: string | null): void {
    this.#version = version;
    this.#heard++;
  }

  async reportWeightVersion(version: string): Promise<void> {
    this.setWeightVersion(version);
    await this.weightVersion();
  }

  abort(requestId: string): Promise<void> {
    return this.#parts.control.abort(requestId);
  }

  pause(mode: VllmPauseMode): Promise<void> {
    return this.#parts.control.pause(mode);
  }

  continue(): Promise<void> {
    return this.#parts.control.continue();
  }

  isPaused(options?: { readonly signal?: AbortSignal }): Promise<boolean> {
    return this.#parts.control.isPaused(options);
  }

  async close(): Promise<void> {
    await this.#parts.control.settled();
    await this.#parts.ownPool?.close();
  }

  async #sample(
    request: SampleRequest,
    options: { readonly writer: BodyWriter; readonly call: LiveCall },
  ): Promise<SampleResult> {
    const { server, control, model, stream, routingHeader, timeoutMs, firstByteTimeoutMs } = this.#parts;
    const { writer, call } = options;
    const { endpoint } = writer;
    const context = server.context("sample from", endpoint.path);
    const body = lend(writer, request, { model, stream, context });
    const expected = this.#expect(request);
    const wasCancelledBefore = call.signal.aborted;
    const fold = stream ? new StreamFold(expected, context) : null;
    try {
      const { routingKey } = request;
      const headers: Readonly<Record<string, string>> =
        routingHeader === null || routingKey === null || routingKey === ""
          ? {}
          : { [routingHeader]: headerText(routingKey) };
      const http = server.request(endpoint.path, body.bytes, headers);
      const limits = { signal: call.signal, timeoutMs, firstByteTimeoutMs };
      if (fold === null) {
        const answer = await server.send(http, limits);
        if (answer.status !== 200) throw server.refusal(answer, context);
        body.giveBack();
        return this.#read(parseJson(answer.body, context), expected, context);
      }
      const chunks = await server.openStream(http, limits, context);
      for await (const event of readEventStream(chunks)) fold.take(event);
      body.giveBack();
      const whole = fold.whole();
      return fold.saidFinish ? this.#read(whole, expected, context) : this.#aborted(whole, expected, context);
    } catch (error) {
      if (call.isEnded && codeOf(error) === "cancelled") {
        return this.#aborted(fold?.aborted() ?? noTokens, expected, context);
      }
      if (isGivenUp(error) && !wasCancelledBefore) control.abandon(request.requestId);
      // The parser of event streams knows no boundary.
      throw error instanceof RangeError ? badReply(context, error.message) : error;
    }
  }

  #expect(request: SampleRequest): Expected {
    return {
      heardBefore: this.#heard,
      // Whoever asked may let it grow when the call is cancelled.
      prompt: request.prompt.fork(request.prompt.length),
      stopTokenIds: ignoresStopTokens(request.sampling.extra) ? [] : request.stopTokenIds,
      vocabularySize: this.#parts.vocabularySize,
      maxTokens: maxTokensOf(request),
      dispatchVersion: this.#version,
    };
  }

  #read(value: unknown, expected: Expected, context: FailureContext): SampleResult {
    const result = readReply(value, expected, { version: this.#version, context });
    const version = result.weightSpans.at(-1)?.reply ?? this.#version;
    // What was heard since the request left is newer than a late reply.
    if (version !== this.#version && expected.heardBefore === this.#heard) this.setWeightVersion(version);
    return result;
  }

  /** What came before a request was aborted without a word of the server. */
  #aborted(value: unknown, expected: Expected, context: FailureContext): SampleResult {
    const result = this.#read(value, expected, context);
    return { ...result, finish: { reason: "abort", matched: null, raw: null } };
  }

  /** One question for all calls that wait; a failed one is asked again by the next call. */
  #find(signal: AbortSignal, context: FailureContext): Promise<BodyWriter> {
    const { server, controlTimeoutMs } = this.#parts;
    this.#search ??= findEndpoint(server, { timeoutMs: controlTimeoutMs })
      .then((endpoint) => (this.#writer ??= new BodyWriter(endpoint)))
      .finally(() => {
        this.#search = null;
      });
    return orCancelled(this.#search, signal, context);
  }

  #warn(request: SampleRequest): void {
    const { onWarning } = this.#parts;
    if (onWarning === null || this.#hasWarned) return;
    const warning = rawLogprobsWarning(request.sampling);
    if (warning === null) return;
    this.#hasWarned = true;
    onWarning(warning);
  }
}

/** An aborted request of which nothing came. */
const noTokens = { choices: [{ finish_reason: "abort", token_ids: [], logprobs: null }] };

function lend(
  writer: BodyWriter,
  request: SampleRequest,
  options: { readonly model: string | null; readonly stream: boolean; readonly context: FailureContext },
): ReturnType<BodyWriter["lend"]> {
  try {
    return writer.lend(request.prompt, writer.endpoint.fields(request, options));
  } catch (error) {
    throw refuse(options.context, "sampling.extra cannot be written as JSON", error);
  }
}

function refuse(context: FailureContext, state: string, cause?: unknown): AttributedError {
  return engineFailure(context, { code: "bad-request", retryable: false, state, cause });
}

/** Settles as the work does, or rejects as soon as the signal aborts. */
function orCancelled<T>(work: Promise<T>, signal: AbortSignal, context: FailureContext): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void =>
      reject(engineFailure(context, { code: "cancelled", retryable: false, state: "the caller cancelled it" }));
    if (signal.aborted) onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    void work.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}

function codeOf(error: unknown): string | null {
  return error instanceof AttributedError ? error.failure.code : null;
}

/** True when a request may still be running on the server although nobody waits for it. */
function isGivenUp(error: unknown): boolean {
  return ["cancelled", "timeout"].includes(codeOf(error) ?? "");
}
