// The sampler of a protocol front: it continues token ids. The front speaks HTTP, checks
// parameters, watches for stops and builds text; a sampler knows none of that. The fake server of
// the tests and a server with a real model differ only in their sampler.

/** The parameters of one generation, checked, with defaults filled in. */
export type SamplerParams = {
  /** Maximum number of tokens to sample, limited by the context. May be 0. */
  readonly maxNewTokens: number;
  /** Number of tokens before which no stop token may be sampled. */
  readonly minNewTokens: number;
  /** Never 0: greedy sampling is `topK` 1 at temperature 1, as in SGLang. */
  readonly temperature: number;
  readonly topP: number;
  /** -1 for the whole vocabulary. */
  readonly topK: number;
  readonly minP: number;
  readonly frequencyPenalty: number;
  readonly presencePenalty: number;
  readonly repetitionPenalty: number;
  /** The model's own end tokens and the requested ones; empty when the request ignores them. */
  readonly stopTokenIds: ReadonlySet<number>;
  /** Added to the logits of a token before sampling. */
  readonly logitBias: ReadonlyMap<number, number>;
  /** Makes this generation reproducible; `null` for the sampler's own randomness. */
  readonly seed: number | null;
};

export type SamplerRequest = {
  /** Prompt, never empty. Do not write to it. */
  readonly promptIds: Uint32Array;
  readonly params: SamplerParams;
  /** Unique among running requests; the client's own id when it gave one. */
  readonly requestId: string;
  /** The same key for calls whose prompts share a beginning; `null` when the client named none. */
  readonly routingKey: string | null;
  /** Adapter of the call; its folder may change while the call runs. Default `null`: the base. */
  readonly adapter?: { readonly name: string; readonly path: string } | null;
};

export type SamplerOptions = {
  /**
   * Aborts when the request was aborted or its client has left: settle soon, with the tokens so
   * far.
   */
  readonly signal: AbortSignal;
  /**
   * Called as tokens come, each token in exactly one call, before the promise resolves; a sampler
   * that cannot stream may ignore it and return everything at the end. "stop": the reply is
   * complete (a stop string, for example), and tokens sampled later are discarded.
   */
  readonly onTokens: (ids: ArrayLike<number>, logprobs: ArrayLike<number>) => "continue" | "stop";
};

export type SamplerOutput = {
  /** All sampled ids, the stop token included. The front drops tokens beyond a stop or the limit. */
  readonly ids: ArrayLike<number>;
  /** One per id: natural log of its probability after temperature. */
  readonly logprobs: ArrayLike<number>;
  /**
   * "end": the front finds the reason in the ids. "length": the sampler had no room for more.
   * "abort": the signal or the sampler itself aborted it.
   */
  readonly finish: "end" | "length" | "abort";
  /** Prompt tokens that needed no computation. */
  readonly cachedTokens: number;
  /**
   * The present version of the weights, which the front then reports; `null` to keep the front's
   * version.
   */
  readonly weightVersion: string | null;
};

/**
 * Continues token ids.
 *
 * Guarantees: `sample` may be called concurrently; it settles soon after its signal aborts; a rejection of any
 * kind is answered with HTTP 500, unless it is a {@link SamplerRefusal}.
 * Left out on purpose: text, stop strings, batches (the front makes one call per sequence) and grammars.
 */
export interface Sampler {
  sample(request: SamplerRequest, options: SamplerOptions): Promise<SamplerOutput>;
  /**
   * Loads weights from a folder. If absent, the front answers that it cannot. Rejects with the
   * reason of the failure.
   */
  updateWeights?(modelPath: string): Promise<void>;
  /** Clears cached prefixes. Called only while nothing runs. */
  flushCache?(): void | Promise<void>;
  /**
   * Holds running generations in place until `resume`; the front holds new ones. If absent,
   * generations continue and their answers are held.
   */
  pause?(): void | Promise<void>;
  resume?(): void | Promise<void>;
}

/**
 * Thrown by a sampler for a request that it cannot serve: answered as SGLang does, with this status
 * and message.
 */
export class SamplerRefusal extends Error {
  readonly status: 400 | 500 | 503;

  constructor(status: 400 | 500 | 503, message: string) {
    super(message);
    this.name = "SamplerRefusal";
    this.status = status;
  }
}

/** Recognized by its shape, so that a sampler need not import this module. */
export function isSamplerRefusal(error: unknown): error is SamplerRefusal {
  return error instanceof Error && error.name === "SamplerRefusal" && "status" in error;
}

export type WireFault =
  /** A completely different answer. */
  | {
      readonly type: "answer";
      readonly status: number;
      readonly headers: Readonly<Record<string, string>>;
      readonly text: string;
    }
  /**
   * The correct answer, changed before it is written as JSON; a {@link RawText} is written
   * unchanged.
   */
  | { readonly type: "edit"; readonly output: SamplerOutput; readonly edit: (item: unknown) => unknown }
  /** The correct answer, truncated after this share of its bytes: 0 sends only headers. */
  | { readonly type: "drop"; readonly output: SamplerOutput; readonly share: number };

export class WireFaultError extends Error {
  readonly fault: WireFault;

  constructor(fault: WireFault) {
    super(`A fault of the wire: ${fault.type}.`);
    this.name = "WireFaultError";
    this.fault = fault;
  }
}

/** Text that is written in place of JSON. */
export class RawText {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** An item in the form that is sent. */
export function itemText(item: unknown): string {
  return item instanceof RawText ? item.text : JSON.stringify(item);
}

export type SampledAnswer = {
  readonly ids: ArrayLike<number>;
  /** One per id. Default: {@link plainLogprob} of its position. */
  readonly logprobs?: ArrayLike<number>;
  /** Default "end". */
  readonly finish?: "end" | "length" | "abort";
  /** Default 0. */
  readonly cachedTokens?: number;
  /** Default `null`: the version of the front. */
  readonly weightVersion?: string | null;
};

export type SampleFunction = (
  request: SamplerRequest,
  options: { readonly signal: AbortSignal },
) => SampledAnswer | Promise<SampledAnswer>;

/** A logprob that shows its position and survives 32 bits unchanged: -1/8 to -1, repeated. */
export function plainLogprob(place: number): number {
  return -((place % 8) + 1) / 8;
}

/**
 * Makes a sampler. Tokens are announced one by one, so that streams have frames; a request that is
 * aborted meanwhile keeps the announced ones. Any error that the function throws is answered with
 * HTTP 500.
 */
export function createFunctionSampler(sample: SampleFunction): Sampler {
  return { sample: (request, options) => announce(sample, request, options) };
}

async function announce(
  sample: SampleFunction,
  request: SamplerRequest,
  options: SamplerOptions,
): Promise<SamplerOutput> {
  const { signal, onTokens } = options;
  const answer = await sample(request, { signal });
  const ids = Array.from(answer.ids);
  const logprobs = Array.from(answer.logprobs ?? ids.map((_, place) => plainLogprob(place)));
  let announced = 0;
  let isOpen = true;
  while (isOpen && announced < ids.length && !signal.aborted) {
    isOpen = onTokens(ids.slice(announced, announced + 1), logprobs.slice(announced, announced + 1)) === "continue";
    announced += 1;
  }
  return {
    ids: ids.slice(0, announced),
    logprobs: logprobs.slice(0, announced),
    finish: answer.finish ?? "end",
    cachedTokens: answer.cachedTokens ?? 0,
    weightVersion: answer.weightVersion ?? null,
  };
}
