// The requests a front is working on, which are held back while generation is paused or weights are being loaded; and the run
// of one sequence behind any protocol: the sampler runs, its tokens are watched for the end, and each has the version of the
// weights that sampled it, as servers report it. Knows nothing of HTTP and of the shapes of answers.

import { type Sampler, type SamplerOutput, type SamplerRequest, WireFaultError, type WireFault } from "./sampler.ts";

export class LiveRequest {
  readonly id: string;
  readonly #controller = new AbortController();
  isRunning = false;

  constructor(id: string) {
    this.id = id;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get isAborted(): boolean {
    return this.#controller.signal.aborted;
  }

  abort(): void {
    this.#controller.abort();
  }
}

export class RequestTable {
  readonly #live = new Map<string, LiveRequest>();
  readonly #holds = new Set<{ readonly freezes: boolean }>();
  #onRelease: (() => void)[] = [];
  #onClose: (() => void)[] = [];

  get running(): number {
    return [...this.#live.values()].filter((request) => request.isRunning).length;
  }

  get waiting(): number {
    return this.#live.size - this.running;
  }

  /** Whether new requests wait. */
  get isHolding(): boolean {
    return this.#holds.size > 0;
  }

  isLive(id: string): boolean {
    return this.#live.has(id);
  }

  /** The id must not be live. */
  open(id: string): LiveRequest {
    const request = new LiveRequest(id);
    this.#live.set(id, request);
    return request;
  }

  close(request: LiveRequest): void {
    this.#live.delete(request.id);
    for (const wake of this.#onClose.splice(0)) wake();
  }

  /** Aborts by prefix, but only when the id itself is live, as the reference does. */
  abort(id: string): void {
    if (!this.#live.has(id)) return;
    for (const request of this.#live.values()) if (request.id.startsWith(id)) request.abort();
  }

  abortAll(): void {
    for (const request of this.#live.values()) request.abort();
  }

  /** Holds new requests, and frozen ones also before they answer, until the returned function is called. */
  hold(options: { readonly freezes: boolean }): () => void {
    const held = { ...options };
    this.#holds.add(held);
    return () => {
      if (this.#holds.delete(held)) for (const wake of this.#onRelease.splice(0)) wake();
    };
  }

  /** Resolves when new requests may begin, or when this one is aborted. */
  admit(request: LiveRequest): Promise<void> {
    return this.#wait(request, () => this.isHolding);
  }

  /** Resolves when running requests may answer, or when this one is aborted. */
  thaw(request: LiveRequest): Promise<void> {
    return this.#wait(request, () => [...this.#holds].some((held) => held.freezes));
  }

  /** Resolves when no request runs. Those that wait may wait on. */
  async drained(): Promise<void> {
    while (this.running > 0) {
      await new Promise<void>((resolve) => {
        this.#onClose.push(resolve);
      });
    }
  }

  async #wait(request: LiveRequest, isHeld: () => boolean): Promise<void> {
    while (isHeld() && !request.isAborted) {
      await new Promise<void>((resolve) => {
        this.#onRelease.push(resolve);
        request.signal.addEventListener("abort", () => resolve(), { once: true });
      });
    }
  }
}

/** Places of sampled tokens from `start` up to `end`. */
export type VersionSpan = { readonly version: string; readonly start: number; readonly end: number };

/** The tokens of one sequence as they come. A protocol says where they end, in the order in which its server looks. */
export abstract class SequenceTracker<Finish> {
  readonly ids: number[] = [];
  readonly logprobs: number[] = [];
  #finish: Finish | null = null;
  #versions: VersionSpan[] = [];

  /** Why the sequence ended; `null` while it continues. */
  get finish(): Finish | null {
    return this.#finish;
  }

  /** Which weights sampled which tokens, in order and without gaps. */
  get versions(): readonly VersionSpan[] {
    return this.#versions;
  }

  /** Takes tokens up to the end of the sequence, sampled by weights of this version; later ones are dropped. */
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

  /** All tokens so far are of this version, whatever was said as they came. */
  attributeTo(version: string): void {
    const end = this.ids.length;
    this.#versions = end === 0 ? [] : [{ version, start: 0, end }];
  }

  /** Ends a sequence that no rule ended. */
  end(finish: Finish): void {
    this.#finish ??= finish;
  }

  /** Why the last token ends the sequence; `null`: it does not. */
  protected abstract look(): Finish | null;
}

/** What all sequences of a front share. */
export type RunContext = {
  readonly sampler: Sampler;
  readonly table: RequestTable;
  /** The version of the weights, as the front knows it now. */
  readonly version: { current: string };
};

export type SequenceOutcome = {
  /** `null`: it was aborted without output. */
  readonly output: SamplerOutput | null;
  /** What is to go wrong on the wire; `null`: nothing. */
  readonly fault: Exclude<WireFault, { type: "answer" }> | null;
};

/** Runs the sampler once. `onTokens` is called after every piece of output but the last. Rejects as the sampler does. */
export async function runSequence<Finish>(
  request: SamplerRequest,
  { sampler, version }: RunContext,
  options: {
    readonly live: LiveRequest;
    readonly tracker: SequenceTracker<Finish>;
    readonly onTokens: () => void;
  },
): Promise<SequenceOutcome> {
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
    if (error instanceof WireFaultError && error.fault.type !== "answer") fault = error.fault;
    else if (!live.isAborted) throw error;
    output = fault?.output ?? null;
  }
  if (output === null) return { output, fault };
  // The part that was not announced as it came.
  const seen = tracker.ids.length;
  tracker.push(Array.from(output.ids).slice(seen), Array.from(output.logprobs).slice(seen), version.current);
  if (output.weightVersion !== null) {
    version.current = output.weightVersion;
    tracker.attributeTo(output.weightVersion);
  }
  return { output, fault };
}
