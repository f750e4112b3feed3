// What stands behind the SGLang protocol front: something that continues token ids. The front speaks HTTP, checks
// parameters, watches for stops and builds text; a sampler knows none of that. The fake server of the tests and a server
// with a real model differ only in the sampler they are given.

/** The parameters of one generation, checked, with defaults filled in. */
export type SamplerParams = {
  /** Most tokens to sample; bounded by what the context allows. May be 0. */
  readonly maxNewTokens: number;
  /** Until so many are sampled, no stop token may be. */
  readonly minNewTokens: number;
  /** Never 0: greedy sampling is `topK` 1 at temperature 1, as SGLang has it. */
  readonly temperature: number;
  readonly topP: number;
  /** -1: the whole vocabulary. */
  readonly topK: number;
  readonly minP: number;
  readonly frequencyPenalty: number;
  readonly presencePenalty: number;
  readonly repetitionPenalty: number;
  /** The model's own end tokens and those asked for; empty when the request ignores them. */
  readonly stopTokenIds: ReadonlySet<number>;
  /** Added to the logits of a token before sampling. */
  readonly logitBias: ReadonlyMap<number, number>;
  /** Makes this generation reproducible; `null`: the sampler's own randomness. */
  readonly seed: number | null;
};

export type SamplerRequest = {
  /** Never empty. Do not write to it. */
  readonly promptIds: Uint32Array;
  readonly params: SamplerParams;
  /** Unique among running requests; the client's own id when it gave one. */
  readonly requestId: string;
  /** The same for calls whose prompts share a beginning; `null` when the client named none. */
  readonly routingKey: string | null;
};

export type SamplerOptions = {
  /** Aborted when the request was aborted or its client went away: settle soon, with what there is. */
  readonly signal: AbortSignal;
  /**
   * To be called as tokens come, each token in exactly one call, before the promise resolves; a sampler that cannot may
   * leave it alone and give everything at the end. "stop": what was asked for is complete (a stop string, say), and tokens
   * sampled later are thrown away.
   */
  readonly onTokens: (ids: ArrayLike<number>, logprobs: ArrayLike<number>) => "continue" | "stop";
};

export type SamplerOutput = {
  /** All sampled ids, the stop token included. What goes beyond a stop or the bound is cut off by the front. */
  readonly ids: ArrayLike<number>;
  /** One per id: natural log of its probability after temperature. */
  readonly logprobs: ArrayLike<number>;
  /**
   * "end": the front finds the reason in the ids. "length": the sampler had no room for more. "abort": it was aborted, by
   * the signal or by the sampler itself.
   */
  readonly finish: "end" | "length" | "abort";
  /** Prompt tokens that needed no computation. */
  readonly cachedTokens: number;
  /** The version of the weights now, which the front then reports; `null`: whatever the front was told last. */
  readonly weightVersion: string | null;
};

/**
 * Continues token ids.
 *
 * Guarantees asked of it: `sample` may be called concurrently; it settles soon after its signal aborts; a rejection of any
 * kind is answered with HTTP 500, unless it is a {@link SamplerRefusal}.
 * Left out on purpose: text, stop strings, batches (the front makes one call per sequence) and grammars.
 */
export interface Sampler {
  sample(request: SamplerRequest, options: SamplerOptions): Promise<SamplerOutput>;
  /** Loads weights from a folder. Absent: the front answers that it cannot. Rejects with the reason when it fails. */
  updateWeights?(modelPath: string): Promise<void>;
  /** Forgets cached prefixes. Called only while nothing runs. */
  flushCache?(): void | Promise<void>;
  /** Holds running generations where they are until `resume`; new ones are held by the front. Absent: they run on and their answers are held. */
  pause?(): void | Promise<void>;
  resume?(): void | Promise<void>;
}

/** A sampler's word that a request cannot be served: answered as SGLang answers it, with this status and message. */
export class SamplerRefusal extends Error {
  readonly status: 400 | 500 | 503;

  constructor(status: 400 | 500 | 503, message: string) {
    super(message);
    this.name = "SamplerRefusal";
    this.status = status;
  }
}

/** Known by its shape, so that a sampler need not import this module. */
export function isSamplerRefusal(error: unknown): error is SamplerRefusal {
  return error instanceof Error && error.name === "SamplerRefusal" && "status" in error;
}
