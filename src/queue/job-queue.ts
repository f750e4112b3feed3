// The contract between the one coordinator of a run, which decides, and the workers, which run episodes and write them. A queue
// carries jobs to workers and receipts back, and nothing that could not be lost: what counts is in the plan and in the run folder.
// Not a store, and not a scheduler: order, groups, filters and limits are the coordinator's.
//
//   submitted ─► waiting ─► leased ─┬─ done ─► receipt ─► coordinator
//                   ▲               ├─ given back ────────┐
//                   └───────────────┴─ lease ran out ◄────┘
//
// At least once, in no order: a job may be delivered again while an earlier delivery still runs, and a receipt may come twice. The
// first receipt of an episode with the coordinator's current fence counts, and only what the coordinator counted exists.

import type { EpisodeSummary, EventCounts } from "../core/index.ts";

/** An episode to be run. Everything else that it needs is in the {@link RunState} of its run. About 0.5 kB. */
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
  /** Differences from the sampling of the run, as JSON text; `null`: none. */
  readonly sampling: string | null;
  /** The engine of this episode; `null`: that of the run. */
  readonly engineUrl: string | null;
  /**
   * Absolute path of the folder that holds the folders of all workers of the run: where a worker reaches it, it continues what another
   * worker recorded of the episode. `null`: the episode starts again.
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
  /** The line of `index.jsonl` without its number, as plain JSON: id, outcome, reward, problems, and the place in the worker's shard. The store reads it. */
  readonly entry: Readonly<Record<string, unknown>>;
  /** Facts that a run needs for its decisions and that the entry does not have. */
  readonly details: Pick<
    EpisodeSummary,
    "failure" | "ending" | "metrics" | "weightSpans" | "samples" | "trainedTokens" | "dropped"
  >;
  readonly counts: EventCounts;
  /** "resumed": its first events came from the journal of another process. "stored": its worker had stored it before. */
  readonly origin: "new" | "resumed" | "stored";
};

/** State of a run that all its workers need, sent again on every change. */
export type RunState = {
  readonly runId: string;
  readonly fence: number;
  /** Grows with every change; a worker ignores what is older than what it has. */
  readonly revision: number;
  /** Version of the package. A worker of another version refuses the run. */
  readonly version: string;
  /** JSON text of what episodes are run with, as its coordinator wrote it. Never changes. */
  readonly settings: string;
  /** "paused": no engine call begins; episodes wait where they are. "ended": nothing of it will be submitted any more. */
  readonly phase: "running" | "paused" | "ended";
  /** Weight version that the trainer reported last; `null` if it reported none. */
  readonly weightVersion: string | null;
  /** Workers that share the limits of the run (requests per minute of an API): each has its part. At least 1. */
  readonly workers: number;
};

/** Message of the coordinator to all workers. */
export type Control =
  /** Kept by the queue: a worker that comes later receives the latest state of each run that has not ended, before its jobs. */
  | { readonly type: "run"; readonly state: RunState }
  /** Aborts runs of these episodes, without a receipt. Not kept. */
  | { readonly type: "cancel"; readonly runId: string; readonly episodeIds: readonly string[] };

/** A worker about itself: when it comes, every second or so, and when it leaves. One that is silent for a lease is gone. */
export type WorkerReport = {
  /** No two workers that live have the same; also the name of its shard. Letters, digits, `.`, `_` and `-`. */
  readonly worker: string;
  readonly version: string;
  /** "refused": it cannot run what it was sent, and says why. "left": it gave back what it had and is gone. */
  readonly phase: "working" | "draining" | "refused" | "left";
  /** For people; `null`: nothing to say. */
  readonly reason: string | null;
  /** Episodes it may hold at once, and holds. */
  readonly capacity: number;
  readonly held: number;
  /** Engine calls that have begun and not ended. */
  readonly callsInFlight: number;
  /** Since its last report, for the controller of an adaptive limit. */
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
  /** May come twice. The queue forgets it once this has resolved; until then a coordinator that takes over receives it, too. */
  readonly onReceipt: (receipt: Receipt) => void | Promise<void>;
  /** "left" also for a worker whose death the queue saw. */
  readonly onReport: (report: WorkerReport) => void;
  /** The queue has forgotten jobs, receipts and states: all that is open is to be submitted and broadcast again. */
  readonly onForgotten: () => void;
  /** A message that is none, dropped; a connection that is lost, or is back. For people. */
  readonly onNotice: (message: string) => void;
};

/**
 * The coordinator's side.
 *
 * Guarantees: a job that was submitted is delivered until it has a receipt, was cancelled or the queue has forgotten it, which
 * `onForgotten` says; a job given back, or whose lease ran out, is delivered again. A job of an episode that waits already
 * replaces it. Calls resolve when the queue has the message and reject, attributed to boundary "queue", when it cannot be reached.
 * Not promised: order, that a job runs once, that a message survives the queue.
 */
export interface JobQueue {
  /** A worker that has not extended a lease for so long has lost it. */
  readonly leaseMs: number;
  /** The last report of each worker that has not left and was heard of within a lease. */
  readonly workers: readonly WorkerReport[];
  /** Aborts when nothing can be submitted or received any more: after `close`, or with the reason, such as another coordinator in this one's place. */
  readonly closed: AbortSignal;
  submit(job: Job): Promise<void>;
  /** Jobs that wait are forgotten; who holds one is told, as by the control. Resolves with those of which it is known that they waited. */
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
  /** Submits and hears nothing more. What a queue outside of this process holds stays there. */
  close(): Promise<void>;
}

/** A time-bounded claim on a job. Ends with `done` or `giveBack`, or when it was not extended for `leaseMs`. */
export interface Lease {
  readonly job: Job;
  /** 1 for the first delivery that the queue knows of. */
  readonly delivery: number;
  /** To be called three times in `leaseMs`. False: the queue knows that the lease has ended, and the job is another worker's. */
  extend(): Promise<boolean>;
  /** The receipt leaves before the job is forgotten. Resolves when the queue has it, also of a lease that has ended. */
  done(receipt: Receipt): Promise<void>;
  /** The job is delivered again, to any worker. `reason`: for people. */
  giveBack(reason: string): Promise<void>;
}

/** Handlers of messages that a worker receives. */
export type WorkerHandlers = {
  /** Its promise resolves when the worker has obeyed, which a queue passes on to who gathers. Never rejects. */
  readonly onControl: (control: Control) => void | Promise<void>;
  /** Same as in `CoordinatorHandlers`. */
  readonly onNotice: (message: string) => void;
};

/** A worker's side. The methods reject, attributed to boundary "queue", when the queue cannot be reached. */
export interface WorkerQueue {
  readonly leaseMs: number;
  /**
   * Aborts when the queue is closed for good: no more jobs will arrive, and receipts are not
   * expected.
   */
  readonly closed: AbortSignal;
  /**
   * Waits until there are jobs, and resolves with at most `most` of them; with none after a while or when it is closed. One
   * call at a time.
   */
  take(most: number, options?: { readonly signal?: AbortSignal | undefined }): Promise<readonly Lease[]>;
  report(report: WorkerReport): Promise<void>;
  /** Releases all jobs that the worker still holds. */
  close(): Promise<void>;
}
