// An engine that plays a script: for tests, docs, and loops that need no model. Not a mock: it keeps the whole contract,
// operations and faults included, and both a call it has no step for and an unused step are errors.

import { AttributedError } from "../../core/failure.ts";
import type { Engine, EngineControl, SampleRequest, SampleResult } from "../../core/engine.ts";
import type { Tokenizer } from "../../core/renderer.ts";
import { systemClock, type Clock } from "../../lib/clock.ts";
import { failure, playStep, toIds, type ScriptedStep, type ScriptedTokens } from "./scripted-step.ts";

/** A step, or just the tokens of a reply. */
export type ScriptedAnswer = ScriptedStep | ScriptedTokens;

/** Decides a step from the request; `call` counts from 0. */
export type ScriptedFunction = (
  request: SampleRequest,
  context: { readonly call: number },
) => ScriptedAnswer | Promise<ScriptedAnswer>;

/** A request as it was when it was made. */
export type ScriptedRequest = Omit<SampleRequest, "prompt"> & { readonly prompt: Uint32Array };

export type ScriptedEngineOptions = {
  /** Answers, one per call in the order of the calls, or a function that has one for every call. */
  readonly script: readonly ScriptedAnswer[] | ScriptedFunction;
  /** Turns text into ids. Default `null`: the script has ids only. */
  readonly tokenizer?: Tokenizer | null;
  /** The version of the weights until a step names another. Default `null`: they have none. */
  readonly weightVersion?: string | null;
  /** Measures delays. Default: the real one. */
  readonly clock?: Clock;
};

export interface ScriptedEngine extends Engine, EngineControl {
  /** One per call, in order; kept for lists only, because a function may be called without end. */
  readonly requests: readonly ScriptedRequest[];
  /** Throws when a call found no step, or when steps are left. */
  verifyDone(): void;
}

/**
 * Makes an engine. Throws a `ConfigurationError` when the script has text and there is no tokenizer.
 *
 * @example
 * const engine = createScriptedEngine({ script: [[5, 6, 9], { type: "failure", code: "overloaded" }, [7, 9]] });
 */
export function createScriptedEngine(options: ScriptedEngineOptions): ScriptedEngine {
  const { script, tokenizer = null } = options;
  if (typeof script !== "function") {
    for (const answer of script) {
      const step = toStep(answer);
      if ("tokens" in step && step.tokens !== undefined) toIds(step.tokens, tokenizer);
    }
  }
  return new Scripted(options);
}

/** The reason of an abort by the server, as opposed to one by the caller. */
const abortedByServer = new Error("The request was aborted.");

class Scripted implements ScriptedEngine {
  readonly name = "scripted";
  readonly requests: ScriptedRequest[] = [];
  readonly #options: ScriptedEngineOptions;
  readonly #clock: Clock;
  readonly #live = new Map<AbortController, string>();
  readonly #unexpected: string[] = [];
  #calls = 0;
  #version: string | null;
  #pause: { readonly over: Promise<void>; readonly end: () => void } | null = null;

  constructor(options: ScriptedEngineOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#version = options.weightVersion ?? null;
  }

  async sample(request: SampleRequest, options: { readonly signal?: AbortSignal } = {}): Promise<SampleResult> {
    const { signal } = options;
    const cancelled = failure("cancelled", { engine: this.name, state: "the caller cancelled it", retryable: false });
    if (signal?.aborted === true) throw cancelled;
    const dispatchVersion = this.#version;
    const live = new AbortController();
    const onCancel = (): void => live.abort(cancelled);
    signal?.addEventListener("abort", onCancel, { once: true });
    this.#live.set(live, request.requestId);
    let step: ScriptedStep | null = null;
    try {
      // The step is taken before the first wait, so that calls and steps pair up in the order of the calls.
      step = toStep(await this.#next(request));
      await this.#unpaused(live.signal);
      if (step.type === "hang") return await never(live.signal);
      if (step.delayMs !== undefined) await this.#clock.sleep(step.delayMs, live.signal);
      await this.#unpaused(live.signal);
      if ("weightVersion" in step && step.weightVersion !== undefined) this.#version = step.weightVersion;
      return this.#play(step, request, dispatchVersion);
    } catch (error) {
      if (error !== abortedByServer) throw toAttributed(error, this.name);
      const tokens = step?.type === "hang" ? (step.tokens ?? []) : [];
      return this.#play({ type: "abort", tokens }, request, dispatchVersion);
    } finally {
      this.#live.delete(live);
      signal?.removeEventListener("abort", onCancel);
    }
  }

  health(): Promise<boolean> {
    return Promise.resolve(true);
  }

  isReady(): Promise<boolean> {
    return Promise.resolve(this.#pause === null);
  }

  weightVersion(): Promise<string | null> {
    return Promise.resolve(this.#version);
  }

  abort(requestId: string): Promise<void> {
    for (const [live, id] of this.#live) if (id === requestId) live.abort(abortedByServer);
    return Promise.resolve();
  }

  pause(mode: "abort" | "retract" | "in-place"): Promise<void> {
    if (mode === "abort") for (const live of this.#live.keys()) live.abort(abortedByServer);
    if (this.#pause !== null) return Promise.resolve();
    let end!: () => void;
    const over = new Promise<void>((resolve) => {
      end = resolve;
    });
    this.#pause = { over, end };
    return Promise.resolve();
  }

  continue(): Promise<void> {
    this.#pause?.end();
    this.#pause = null;
    return Promise.resolve();
  }

  close(): Promise<void> {
    const closed = failure("cancelled", { engine: this.name, state: "the engine was closed", retryable: false });
    for (const live of this.#live.keys()) live.abort(closed);
    return Promise.resolve();
  }

  verifyDone(): void {
    const [unexpected] = this.#unexpected;
    if (unexpected !== undefined) throw new Error(unexpected);
    const { script } = this.#options;
    if (typeof script === "function" || this.#calls === script.length) return;
    throw new Error(
      `Cannot accept the script of engine "${this.name}": ${script.length - this.#calls} of ${script.length} steps were never used; make the calls or leave the steps out.`,
    );
  }

  #next(request: SampleRequest): ScriptedAnswer | Promise<ScriptedAnswer> {
    const { script } = this.#options;
    const call = this.#calls++;
    if (typeof script === "function") return script(request, { call });
    this.requests.push({ ...request, prompt: request.prompt.view().slice() });
    const answer = script[call];
    if (answer !== undefined) return answer;
    const state = `call ${call + 1} has no step, the script has ${script.length}; give it one more step`;
    const error = failure("bad-request", { engine: this.name, state, retryable: false });
    this.#unexpected.push(error.message);
    throw error;
  }

  #play(step: Exclude<ScriptedStep, { type: "hang" }>, request: SampleRequest, dispatchVersion: string | null) {
    const { tokenizer = null } = this.#options;
    return playStep(step, request, { engine: this.name, tokenizer, dispatchVersion, replyVersion: this.#version });
  }

  async #unpaused(signal: AbortSignal): Promise<void> {
    while (this.#pause !== null) await Promise.race([this.#pause.over, never(signal)]);
    signal.throwIfAborted();
  }
}

function toStep(answer: ScriptedAnswer): ScriptedStep {
  return typeof answer === "object" && "type" in answer ? answer : { type: "reply", tokens: answer };
}

/** Rejects with the reason of the signal, and never settles otherwise. */
function never(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const stop = (): void => reject(signal.reason as Error);
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true });
  });
}

/** A function that throws is a fault of the script; the caller still gets what the contract promises. */
function toAttributed(error: unknown, engine: string): AttributedError {
  if (error instanceof AttributedError) return error;
  const words = error instanceof Error ? error.message : String(error);
  return failure("server-error", { engine, state: `its script threw: ${words}`, retryable: false });
}
