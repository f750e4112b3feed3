// Contract between the one coordinator of a run, which decides, and the workers, which run episodes
// and write them. A queue carries jobs to workers and receipts back, and only data that may be
// lost: the durable state is in the plan and in the run folder. A queue is neither a store nor a
// scheduler: the coordinator decides about order, groups, filters and limits.
//
//   submitted ─► waiting ─► leased ─┬─ done ─► receipt ─► coordinator
//                   ▲               ├─ given back ────────┐
//                   └───────────────┴─ lease ran out ◄────┘
//
// Delivery is at least once, in no order: a job may be delivered again while an earlier delivery
// still runs, and a receipt may arrive twice. The first receipt of an episode with the
// coordinator's current fence counts, and only episodes that the coordinator counted exist.

import type { EpisodeSummary, EventCounts } from "../core/index.ts";

/**
 * An episode to run. Everything else that it needs is in the {@link RunState} of its run. About 0.5
 * kB.
 */
export type Job = {
  readonly runId: string;
  /**
   * Fence of the coordinator that submitted the job: each process that takes over a run has a
   * higher one.
   */
  readonly fence: number;
  readonly episodeId: string;
  readonly groupId: string;
  readonly sampleIndex: number;
  readonly split: string;
  readonly taskIndex: number;
  /**
   * Content hash of the task. A worker whose data or code produce a different task for the index
   * refuses the job.
   */
  readonly contentHash: string;
  readonly seed: number;
  /** Differences from the sampling of the run, as JSON text; `null` for none. */
  readonly sampling: string | null;
  /** The engine of this episode; `null` for the engine of the run. */
  readonly engineUrl: string | null;
  /**
   * Absolute path of the folder with the folders of all workers of the run: a worker with access to
   * it continues an episode that another worker recorded. `null`: the episode starts again.
   */
  readonly shards: string | null;
};

/**
 * Result of a job; the episode itself is stored where the entry says, on disk before the receipt is
 * sent. About 1 kB.
 */
export type Receipt = {
  readonly runId: string;
  readonly fence: number;
  readonly episodeId: string;
  readonly worker: string;
  /**
   * The line of `index.jsonl` without its number, as plain JSON: id, outcome, reward, problems, and
   * the location in the worker's shard. The store reads it.
   */
  readonly entry: Readonly<Record<string, unknown>>;
  /** Facts that a run needs for its decisions and that the entry does not have. */
  readonly details: Pick<
    EpisodeSummary,
    "failure" | "ending" | "metrics" | "weightSpans" | "samples" | "trainedTokens" | "dropped"
  >;
  readonly counts: EventCounts;
  /**
   * "resumed": its first events came from the journal of another process. "stored": its worker had
   * already stored it.
   */
  readonly origin: "new" | "resumed" | "stored";
};

/** State of a run that all its workers need, sent again on every change. */
export type RunState = {
  readonly runId: string;
  readonly fence: number;
  /** Number that grows with every change; a worker ignores a state that is older than its own. */
  readonly revision: number;
  /** Version of the package. A worker of another version refuses the run. */
  readonly version: string;
  /**
   * JSON text of the settings with which episodes are run, as the coordinator wrote it. Never
   * changes.
   */
  readonly settings: string;
  /**
   * "paused": no engine call begins; episodes wait at their current turn. "ended": no more jobs of
   * the run will be submitted.
   */
  readonly phase: "running" | "paused" | "ended";
  /** Weight version that the trainer reported last; `null` if it reported none. */
  readonly weightVersion: string | null;
  /**
   * Number of workers that share the limits of the run (requests per minute of an API): each gets
   * its part. At least 1.
   */
  readonly workers: number;
};

/** Message of the coordinator to all workers. */
export type Control =
  /**
   * Kept by the queue: a worker that connects later receives the latest state of each run that has
   * not ended, before its jobs.
   */
  | { readonly type: "run"; readonly state: RunState }
  /** Aborts runs of these episodes, without a receipt. Not kept. */
  | { readonly type: "cancel"; readonly runId: string; readonly episodeIds: readonly string[] };

/**
 * Report of a worker: sent when it connects, about every second, and when it leaves. A worker that
 * is silent for a lease counts as gone.
 */
export type WorkerReport = {
  /**
   * Name of the worker, unique among live workers; also the name of its shard. Letters, digits,
   * `.`, `_` and `-`.
   */
  readonly worker: string;
  readonly version: string;
  /**
   * "refused": it cannot run its jobs, and gives the reason. "left": it released all its jobs and
   * is gone.
   */
  readonly phase: "working" | "draining" | "refused" | "left";
  /** Reason for people; `null` for none. */
  readonly reason: string | null;
  /** Maximum number of episodes that it may hold, and the number that it holds. */
  readonly capacity: number;
  readonly held: number;
  /** Number of engine calls in flight. */
  readonly callsInFlight: number;
  /** Observations since its last report, for the controller of an adaptive limit. */
  readonly observed: { readonly calls: number; readonly sampledTokens: number; readonly overloads: number };
  /** Progress of episodes whose receipts the worker has not sent. */
  readonly unfinished: { readonly turns: number; readonly sampledTokens: number };
};

/** Workers that acknowledged a question, and those that did not in time. */
export type Gathered = {
  /** Names of workers. */
  readonly acknowledged: readonly string[];
  readonly missing: readonly string[];
};

/**
 * Handlers of messages that a coordinator receives. Handlers never reject; one may be called again
 * before an earlier call has resolved.
 */
export type CoordinatorHandlers = {
  /**
   * Receives a receipt, possibly twice. The queue forgets the receipt once this has resolved; until
   * then a coordinator that takes over also receives it.
   */
  readonly onReceipt: (receipt: Receipt) => void | Promise<void>;
  /** Receives reports; "left" also for a worker whose death the queue detected. */
  readonly onReport: (report: WorkerReport) => void;
  /**
   * Called if the queue has lost jobs, receipts and states: all open jobs must be submitted and all
   * states broadcast again.
   */
  readonly onForgotten: () => void;
  /**
   * Receives notices for people: an invalid message was dropped, a connection is lost or restored.
   */
  readonly onNotice: (message: string) => void;
};

/**
 * The coordinator's side.
 *
 * Guarantees: a submitted job is delivered until it has a receipt, is cancelled or the queue has
 * forgotten it, which `onForgotten` reports; a job that was given back, or whose lease ran out, is
 * delivered again. A job replaces a waiting job of the same episode. Calls resolve when the queue
 * has the message and reject, attributed to boundary "queue", if it cannot be reached. Not
 * guaranteed: order, that a job runs only once, that a message survives the queue.
 */
export interface JobQueue {
  /** Time after which a worker loses a lease that it has not extended. */
  readonly leaseMs: number;
  /** The last report of each worker that has not left and has reported within a lease. */
  readonly workers: readonly WorkerReport[];
  /**
   * Aborts when nothing can be submitted or received any more: after `close`, or with a reason,
   * such as another coordinator that took over.
   */
  readonly closed: AbortSignal;
  submit(job: Job): Promise<void>;
  /**
   * Cancels jobs: waiting ones are forgotten, and workers that hold one are notified, as by the
   * control. Resolves with the jobs that are known to have been waiting.
   */
  cancel(runId: string, episodeIds: readonly string[]): Promise<readonly string[]>;
  broadcast(control: Control): Promise<void>;
  /**
   * Broadcasts like `broadcast`, and resolves when every worker has obeyed, has left or has been
   * silent for a lease, or after `timeoutMs`. A worker that has obeyed a paused state has no engine
   * call in flight. `missing`: workers that may still have one.
   */
  gather(
    control: Control,
    options: { readonly timeoutMs: number; readonly signal?: AbortSignal | undefined },
  ): Promise<Gathered>;
  /** Stops submitting and receiving. Messages in a queue outside of this process stay there. */
  close(): Promise<void>;
}

/**
 * A time-bounded claim on a job. Ends with `done` or `giveBack`, or if it is not extended for
 * `leaseMs`.
 */
export interface Lease {
  readonly job: Job;
  /** Number of the delivery, starting at 1 for the first one that the queue knows of. */
  readonly delivery: number;
  /**
   * Extends the lease; call it three times per `leaseMs`. Resolves to false if the queue knows that
   * the lease has ended and another worker has the job.
   */
  extend(): Promise<boolean>;
  /**
   * Sends the receipt, then forgets the job. Resolves when the queue has the receipt, also for a
   * lease that has ended.
   */
  done(receipt: Receipt): Promise<void>;
  /** Releases the job, which is delivered again, to any worker. `reason`: for people. */
  giveBack(reason: string): Promise<void>;
}

/** Handlers of messages that a worker receives. */
export type WorkerHandlers = {
  /**
   * Obeys a control. The promise resolves when the worker has obeyed, which the queue reports to
   * callers of `gather`. Never rejects.
   */
  readonly onControl: (control: Control) => void | Promise<void>;
  /** Same as in `CoordinatorHandlers`. */
  readonly onNotice: (message: string) => void;
};

/**
 * A worker's side. The methods reject, attributed to boundary "queue", if the queue cannot be
 * reached.
 */
export interface WorkerQueue {
  readonly leaseMs: number;
  /**
   * Aborts when the queue is closed for good: no more jobs will arrive, and receipts are not
   * expected.
   */
  readonly closed: AbortSignal;
  /**
   * Waits for jobs, and resolves with at most `most` of them; with none after some time or when it
   * is closed. One call at a time.
   */
  take(most: number, options?: { readonly signal?: AbortSignal | undefined }): Promise<readonly Lease[]>;
  report(report: WorkerReport): Promise<void>;
  /** Releases all jobs that the worker still holds. */
  close(): Promise<void>;
}
