// The requests in flight of a front, which are held while generation is paused or weights are
// loaded; and the run of one sequence for any protocol: the sampler runs, its tokens are checked
// for the end, and each has the version of the weights that sampled it, as servers report it. It
// knows nothing about HTTP and the shapes of answers.

import {
  isSamplerRefusal,
  itemText,
  type Sampler,
  type SamplerOutput,
  type SamplerRefusal,
  type SamplerRequest,
  WireFaultError,
  type WireFault,
} from "./sampler.ts";

/** One request in flight; it is aborted when its client leaves or an operator aborts it. */
export class LiveRequest extends AbortController {
  readonly id: string;
  isRunning = false;

  constructor(id: string) {
    super();
    this.id = id;
  }

  get isAborted(): boolean {
    return this.signal.aborted;
  }
}

export class RequestTable {
  readonly #live = new Map<string, LiveRequest>();
  readonly #holds = new Set<{ readonly freezes: boolean }>();
  #waiting: (() => void)[] = [];

  get running(): number {
    return [...this.#live.values()].filter((request) => request.isRunning).length;
  }

  get waiting(): number {
    return this.#live.size - this.running;
  }

  /** True if new requests must wait. */
  get isHolding(): boolean {
    return this.#holds.size > 0;
  }

  isLive(id: string): boolean {
    return this.#live.has(id);
  }

  /** Opens a request; its id must not be live. */
  open(id: string): LiveRequest {
    const request = new LiveRequest(id);
    this.#live.set(id, request);
    request.signal.addEventListener("abort", () => this.#wake(), { once: true });
    return request;
  }

  close(request: LiveRequest): void {
    this.#live.delete(request.id);
    this.#wake();
  }

  /** Aborts the requests whose ids are chosen. Default: all. */
  abort(isChosen: (id: string) => boolean = () => true): void {
    for (const request of this.#live.values()) if (isChosen(request.id)) request.abort();
  }

  /**
   * Holds new requests, and if it freezes also running ones before they answer, until the returned
   * function is called.
   */
  hold(options: { readonly freezes: boolean }): () => void {
    const held = { ...options };
    this.#holds.add(held);
    return () => {
      if (this.#holds.delete(held)) this.#wake();
    };
  }

  /** Resolves when new requests may begin, or when this one is aborted. */
  admit(request: LiveRequest): Promise<void> {
    return this.#until(() => !this.isHolding || request.isAborted);
  }

  /** Resolves when running requests may answer, or when this one is aborted. */
  thaw(request: LiveRequest): Promise<void> {
    return this.#until(() => request.isAborted || ![...this.#holds].some((held) => held.freezes));
  }

  /** Resolves when no request runs. Waiting requests may still wait. */
  drained(): Promise<void> {
    return this.#until(() => this.running === 0);
  }

  async #until(holds: () => boolean): Promise<void> {
    while (!holds()) {
      await new Promise<void>((resolve) => {
        this.#waiting.push(resolve);
      });
    }
  }

  #wake(): void {
    for (const wake of this.#waiting.splice(0)) wake();
  }
}

/** Positions of sampled tokens from `start` up to `end`, exclusive. */
export type VersionSpan = { readonly version: string; readonly start: number; readonly end: number };

/**
 * The tokens of one sequence as they arrive. A protocol defines where they end, in the order in
 * which its server checks.
 */
export abstract class SequenceTracker<Finish> {
  readonly ids: number[] = [];
  readonly logprobs: number[] = [];
  #finish: Finish | null = null;
  #versions: VersionSpan[] = [];

  /** Reason why the sequence ended; `null` while it continues. */
  get finish(): Finish | null {
    return this.#finish;
  }

  /**
   * Versions of the weights that sampled the tokens, in order and without gaps; `weightVersion` is
   * that of a sequence without tokens.
   */
  versions(weightVersion: string): readonly VersionSpan[] {
    return this.#versions.length > 0 ? this.#versions : [{ version: weightVersion, start: 0, end: 0 }];
  }

  /**
   * Adds tokens up to the end of the sequence, sampled by weights of this version; later ones are
   * dropped.
   */
  push(ids: ArrayLike<number>, logprobs: ArrayLike<number>, version: string): void {
    for (let index = 0; index < ids.length && this.#finish === null; index++) {
      this.ids.push(ids[index]!);
      this.logprobs.push(logprobs[index] ?? 0);
      this.#finish = this.look();
    }
    const last = this.#versions.at(-1);
    const [start, end] = [last?.end ?? 0, this.ids.length];
    if (end <= start) return;
    if (last?.version === version) this.#versions[this.#versions.length - 1] = { ...last, end };
    else this.#versions.push({ version, start, end });
  }

  /** Attributes all tokens so far to this version, replacing earlier attributions. */
  attributeTo(version: string): void {
    const end = this.ids.length;
    this.#versions = end === 0 ? [] : [{ version, start: 0, end }];
  }

  /** Ends a sequence that no rule ended. */
  end(how: "stop" | "length" | "abort"): void {
    this.#finish ??= this.endedBy(how);
  }

  /** Reason why the last token ends the sequence; `null` if it does not. */
  protected abstract look(): Finish | null;
  protected abstract endedBy(how: "stop" | "length" | "abort"): Finish;
}

/** Parts that all sequences of a front share. */
export type RunContext = {
  readonly sampler: Sampler;
  readonly table: RequestTable;
  /** The version of the weights that the front knows now. */
  readonly version: { current: string };
  /** The protocol's error for a refusal of the sampler or (`null`) for its failure. */
  readonly refusalOf: (refusal: SamplerRefusal | null) => Error;
};

export type SequenceOutcome = {
  /** False if it was aborted while it waited. */
  readonly hasRun: boolean;
  readonly cachedTokens: number;
  /** The fault to produce on the wire; `null` for none. */
  readonly fault: Exclude<WireFault, { type: "answer" }> | null;
};

/**
 * Runs one sequence from admission to its end; a sequence that has already ended is not sampled.
 * `onTokens` is called after every piece of output except the last. Rejects with the protocol's
 * refusal, or with the `WireFaultError` of another answer.
 */
export async function runSequence<Finish>(
  request: SamplerRequest,
  context: RunContext,
  options: {
    readonly live: LiveRequest;
    readonly tracker: SequenceTracker<Finish>;
    readonly onTokens: () => void;
  },
): Promise<SequenceOutcome> {
  const { table } = context;
  const { live, tracker } = options;
  await table.admit(live);
  const hasRun = !live.isAborted;
  live.isRunning = hasRun;
  const { output, fault } =
    hasRun && tracker.finish === null ? await runSampler(request, context, options) : { output: null, fault: null };
  tracker.end(live.isAborted || output?.finish === "abort" ? "abort" : output?.finish === "length" ? "length" : "stop");
  // Held answers are sent when generation continues; they report the version of that moment.
  if (hasRun) await table.thaw(live);
  return { hasRun, cachedTokens: output?.cachedTokens ?? 0, fault };
}

async function runSampler<Finish>(
  request: SamplerRequest,
  { sampler, version, refusalOf }: RunContext,
  options: Parameters<typeof runSequence<Finish>>[2],
): Promise<{ readonly output: SamplerOutput | null; readonly fault: SequenceOutcome["fault"] }> {
  const { live, tracker, onTokens } = options;
  let fault: SequenceOutcome["fault"] = null;
  let output: SamplerOutput | null = null;
  try {
    output = await sampler.sample(request, {
      signal: live.signal,
      onTokens: (ids, logprobs) => {
        tracker.push(ids, logprobs, version.current);
        if (tracker.finish === null && !live.isAborted) onTokens();
        return tracker.finish === null ? "continue" : "stop";
      },
    });
  } catch (error) {
    const isOfWire = error instanceof WireFaultError;
    if (isOfWire && error.fault.type !== "answer") fault = error.fault;
    else if (!live.isAborted) throw isOfWire ? error : refusalOf(isSamplerRefusal(error) ? error : null);
    output = fault?.output ?? null;
  }
  if (output === null) return { output, fault };
  // The tokens that were not announced during sampling.
  const seen = tracker.ids.length;
  tracker.push(Array.from(output.ids).slice(seen), Array.from(output.logprobs).slice(seen), version.current);
  if (output.weightVersion !== null) {
    version.current = output.weightVersion;
    tracker.attributeTo(output.weightVersion);
  }
  return { output, fault };
}

/** An item in the form that is sent, and the share of its bytes to send. */
export function withFault(item: unknown, fault: SequenceOutcome["fault"]): { text: string; share: number } {
  const text = itemText(fault?.type === "edit" ? fault.edit(item) : item);
  return { text, share: fault?.type === "drop" ? fault.share : 1 };
}
