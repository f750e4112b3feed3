// One requested episode from its request to what is remembered of it. Knows nothing of HTTP and decides nothing: the desk does.
//
//   waiting ─► running ─► ended
//      ├────── cancel ───────┘
//      └────── cut off: it stays as it is, and the next process goes on with it

import type { Task } from "../core/index.ts";
import type { EpisodeSummary } from "./episode-summary.ts";
import type { EventView } from "./event-view.ts";

export type JobStatus = "waiting" | "running" | "ended";

/** Where a job belongs and what it plays. */
export type JobPlace = {
  readonly episodeId: string;
  readonly groupId: string;
  readonly sampleIndex: number;
  readonly task: Task;
  readonly seed: number;
};

export class EpisodeJob {
  readonly place: JobPlace;
  readonly #controller = new AbortController();
  readonly #waiters = new Set<() => void>();
  readonly #events: EventView[] = [];
  #status: JobStatus = "waiting";
  #summary: EpisodeSummary | null = null;
  #isForgotten = false;
  #isKept = false;
  #isCutOff = false;

  constructor(place: JobPlace) {
    this.place = place;
  }

  get status(): JobStatus {
    return this.#status;
  }

  /** Set once it has ended. */
  get summary(): EpisodeSummary | null {
    return this.#summary;
  }

  /** Its episode is in the store; once it has ended. */
  get isKept(): boolean {
    return this.#isKept;
  }

  /** The service closes before it has ended: nothing more happens here. */
  get isCutOff(): boolean {
    return this.#isCutOff;
  }

  /** Aborted when it is to stop. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** `null` once they are forgotten. */
  get events(): readonly EventView[] | null {
    return this.#isForgotten ? null : this.#events;
  }

  begin(): void {
    this.#status = "running";
    this.#wake();
  }

  see(event: EventView): void {
    this.#events.push(event);
    this.#wake();
  }

  end(summary: EpisodeSummary, { isKept }: { readonly isKept: boolean }): void {
    this.#status = "ended";
    this.#summary = summary;
    this.#isKept = isKept;
    this.#wake();
  }

  /** An earlier process played and kept it; there are no events of it here. */
  endBefore(summary: EpisodeSummary): void {
    this.end(summary, { isKept: true });
    this.forgetEvents();
  }

  cancel(): void {
    this.#controller.abort(new Error("The episode was cancelled."));
  }

  /** One that has ended or was cancelled before stays so. */
  cutOff(): void {
    if (this.#status === "ended" || this.signal.aborted) return;
    this.#isCutOff = true;
    this.#controller.abort(new Error("The service is closing."));
    this.#wake();
  }

  /** Gives the memory of its events back. */
  forgetEvents(): void {
    this.#events.length = 0;
    this.#isForgotten = true;
  }

  /** Resolves at its next change; rejects with the signal's reason when that aborts first. */
  changed(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason as Error);
      const onAbort = (): void => {
        this.#waiters.delete(goOn);
        reject(signal.reason as Error);
      };
      const goOn = (): void => {
        signal.removeEventListener("abort", onAbort);
        resolve();
      };
      this.#waiters.add(goOn);
      signal.addEventListener("abort", onAbort, { once: true });
    });
  }

  #wake(): void {
    const waiters = [...this.#waiters];
    this.#waiters.clear();
    for (const goOn of waiters) goOn();
  }
}
