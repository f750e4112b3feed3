// The engine as a contract: token ids in, sampled ids and logprobs out. Implementations: `engines/`.

import type { Constraint, ConstraintKind } from "./constraint.ts";
import type { Scorer } from "./scoring.ts";
import type { TokenBuffer } from "./token-buffer.ts";
import type { Finish, RoutedExperts, WeightSpan } from "./turn.ts";

/** Sampling parameters of an engine. Names follow the field; each engine translates them once. */
export type SamplingParams = {
  /** 0 is greedy. */
  readonly temperature: number;
  readonly topP: number;
  /** -1: the whole vocabulary. */
  readonly topK: number;
  readonly minP: number;
  /** Per engine call; `null`: as much as the context allows. */
  readonly maxNewTokens: number | null;
  readonly repetitionPenalty: number;
  /** Per engine call, derived from (run seed, task, sample, turn); `null`: the engine's own randomness. */
  readonly seed: number | null;
  /** Engine-specific parameters, sent as they are (SGLang refuses names it does not know). */
  readonly extra: Readonly<Record<string, unknown>>;
  /** LoRA adapter that samples; `null`: the base. Engines without servers ignore it. @default the engine's own */
  readonly adapter?: string | null;
};

/** Undistorted sampling from the policy itself, as on-policy learning assumes. */
export const defaultSampling: SamplingParams = Object.freeze({
  temperature: 1,
  topP: 1,
  topK: -1,
  minP: 0,
  maxNewTokens: 1024,
  repetitionPenalty: 1,
  seed: null,
  extra: Object.freeze({}),
});

/** Strings that end a generation, and a way to find them in sampled ids. */
export type StopStrings = {
  /**
   * The list is not empty, and neither is any string. Servers decode the sampled ids themselves and
   * are sent these strings.
   */
  readonly strings: readonly string[];
  /**
   * Watches one generation, for engines that know no text: takes every sampled id in order and
   * returns the string that an id completes; `null` if it completes none.
   */
  watch(): (id: number) => string | null;
};

/** The first of these ids that completes a stop string; `null` if none does. */
export function firstStop(
  ids: ArrayLike<number>,
  { watch }: Pick<StopStrings, "watch">,
): { readonly count: number; readonly matched: string } | null {
  const completes = watch();
  for (let at = 0; at < ids.length; at++) {
    const matched = completes(ids[at]!);
    if (matched !== null) return { count: at + 1, matched };
  }
  return null;
}

/** A request to continue these token ids. */
export type SampleRequest = {
  readonly prompt: TokenBuffer;
  readonly sampling: SamplingParams;
  readonly stopTokenIds: readonly number[];
  /**
   * The generation ends with the token that completes one of these strings; the result includes
   * that token, and names the string as matched if the engine reports it. `null`: only stop tokens
   * end it. @default null
   */
  readonly stopStrings?: StopStrings | null;
  /** Unique per attempt; engines abort a request by this id. */
  readonly requestId: string;
  /** The same for all turns of an episode, so that a router can keep its prefix cache on one worker; `null`: no preference. */
  readonly routingKey: string | null;
  /**
   * First token whose experts, chosen by a mixture-of-experts model, are requested; `null`: none
   * are requested. @default null
   */
  readonly routedExpertsFrom?: number | null;
  /**
   * Requests the ids that sampling kept at each token (see {@link SampleResult.samplingMask}); the
   * logprobs are then those of the distribution over the kept ids. @default false
   */
  readonly samplingMask?: boolean;
  /**
   * Restricts the text, and the logprobs are then those of the restricted distribution. Engines
   * that do not declare its kind reject with the code "bad-request". @default null
   */
  readonly constraint?: Constraint | null;
};

export type EngineUsage = {
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** Prompt tokens served from the prefix cache; `null` when the engine does not say. */
  readonly cachedTokens: number | null;
};

export type SampleResult = {
  /** Includes the stop token when one matched. */
  readonly sampledTokens: Uint32Array;
  /** One per sampled token, natural log, as the engine reported; `null` when it reported none. */
  readonly logprobs: Float32Array | null;
  readonly finish: Finish;
  readonly weightSpans: readonly WeightSpan[];
  readonly usage: EngineUsage;
  /**
   * Expert numbers as little-endian int32, by token, layer and choice, for all tokens but the last:
   * from the requested token on, or from the first. `null` if the server sent none, or none were
   * requested. @default null
   */
  readonly routedExpertBytes?: Uint8Array | null;
  /** Layers and experts per token of `routedExpertBytes`, if the server states them. @default null */
  readonly routedExpertShape?: Pick<RoutedExperts, "layers" | "topk"> | null;
  /**
   * The ids that top-k, top-p and min-p kept: for each sampled token, their number, then the ids in
   * any order, the sampled one among them. `null` if they were not requested. @default null
   */
  readonly samplingMask?: Uint32Array | null;
  /** True if the logprobs are those of the distribution over the kept ids, not over all. @default false */
  readonly isRenormalized?: boolean;
  /** Unrestricted probability of all allowed ids, one per sampled token; `null` if it is not reported. @default null */
  readonly allowedMass?: Float32Array | null;
};

/** Codes of failures at the boundary `engine`. Only the first is a normal ending of an episode (stop reason "context_length"). */
export type EngineFailureCode =
  | "context-length"
  | "unreachable"
  | "connection-lost"
  | "timeout"
  | "overloaded"
  | "server-error"
  | "bad-request"
  | "unauthorized"
  | "bad-reply"
  | "cancelled";

export type SampleOptions = {
  readonly signal?: AbortSignal;
  /**
   * Called with new ids as they are sampled; together they are the beginning of the result, or the
   * call rejects. Engines that do not stream never call it.
   */
  readonly onTokens?: (tokens: Uint32Array) => void;
};

/**
 * Samples token ids from token ids. Knows nothing about messages, tools or text.
 *
 * Guarantees: `sampledTokens` are the ids the server sampled; a rejection means that no turn
 * happened and is an `AttributedError` at boundary "engine" with an {@link EngineFailureCode}; an
 * abort by the server is a result whose finish reason is "abort", with the partial tokens. Safe to
 * call concurrently; the prompt may grow after the promise settles.
 *
 * Not promised: order between calls, or equal weights for two calls. Retries belong to the caller
 * (`rollout/`). `score` is absent if the engine cannot score tokens.
 */
export interface Engine extends Partial<Scorer> {
  readonly name: string;
  /** Kinds of constraints that it samples under. @default none */
  readonly constraints?: readonly ConstraintKind[];
  /**
   * Reason why it cannot report the ids that this sampling keeps, as a clause with its remedy;
   * `null` if it can. Absent if it never can.
   */
  samplingMaskProblem?(sampling: SamplingParams): string | null;
  sample(request: SampleRequest, options?: SampleOptions): Promise<SampleResult>;
  /**
   * Resolves with true if the server takes requests now: it is up and not paused. Rejects when it
   * cannot be queried. If the method is absent, readiness is not known, and a held request waits on
   * the server.
   */
  isReady?(options?: { readonly signal?: AbortSignal }): Promise<boolean>;
  /**
   * Called when the trainer reports that the servers have new weights, before any work that relies
   * on them. Updates the version at dispatch: a server that names its weights is queried, for any
   * other the trainer's report is used. Resolves with the versions that the servers name, one for
   * each; `null` for a server that names none. Rejects when a server cannot be queried; its version
   * is then unknown until a reply names it. Absent if the weights never change, or the engine
   * detects changes itself.
   */
  reportWeightVersion?(version: string): Promise<readonly (string | null)[]>;
  close(): Promise<void>;
}

/**
 * Operations that a server may offer besides sampling. Every method rejects with an
 * `AttributedError` when the server refuses.
 */
export interface EngineControl {
  health(options?: { readonly signal?: AbortSignal }): Promise<boolean>;
  /** The version of its weights that the server reports; `null` when it does not version them. */
  weightVersion(options?: { readonly signal?: AbortSignal }): Promise<string | null>;
  /** Aborts a request by its id; unknown ids are ignored. */
  abort(requestId: string): Promise<void>;
  pause(mode: "abort" | "retract" | "in-place"): Promise<void>;
  continue(): Promise<void>;
}

/**
 * Load of the servers behind one engine at one moment; a run reads it to bound its concurrency. Not
 * telemetry.
 */
export type EngineLoad = {
  /** Number of servers that answered. */
  readonly servers: number;
  /** Requests being sampled on all servers. */
  readonly running: number;
  /** Waiting requests on all servers. */
  readonly waiting: number;
  /**
   * Used share of the key-value cache, 0 to 1, on the fullest server; `null` when no server reports
   * it.
   */
  readonly kvUse: number | null;
};

/** Engines whose servers report their load. */
export interface EngineLoadSource {
  /**
   * Resolves with `null` if the servers do not report their load. Rejects with an `AttributedError`
   * at boundary "engine" when it cannot be queried.
   */
  load(options?: { readonly signal?: AbortSignal }): Promise<EngineLoad | null>;
}
