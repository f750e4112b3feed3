// The parts of a queue on the broker: three streams, two consumers and some plain subjects, all
// named after the queue. Only coordinators create them; workers wait until they exist.
//
//   stream TA_<queue>_JOBS      a work queue; the last job of an episode; consumer "workers"
//     subject ta.<queue>.job.<run>.<episode>
//   stream TA_<queue>_RECEIPTS  a work queue; the consumer of the coordinator, its own
//     subject ta.<queue>.receipt
//   stream TA_<queue>_STATES    the last state of each run; workers also subscribe to it
//     subject ta.<queue>.state.<run>
//   plain subjects              not kept: only connected subscribers receive them
//     ta.<queue>.control, .report, .obeyed, .coordinator

import { createHash } from "node:crypto";
import type { NatsLink } from "./nats-link.ts";
import type { StreamInfo } from "./nats-library.ts";

/**
 * Ids may contain any characters, but subjects have a limited alphabet: 22 letters, 132 bits, of
 * the digest.
 */
function tokenOf(id: string): string {
  return createHash("sha256").update(id).digest("base64url").slice(0, 22);
}

/** Streams and subjects of a queue. */
export function namesOf(queue: string) {
  const [stream, subject] = [`TA_${queue}`, `ta.${queue}`];
  return {
    jobs: `${stream}_JOBS`,
    receipts: `${stream}_RECEIPTS`,
    states: `${stream}_STATES`,
    job: (runId: string, episodeId: string) => `${subject}.job.${tokenOf(runId)}.${tokenOf(episodeId)}`,
    jobsOfRun: (runId: string) => `${subject}.job.${tokenOf(runId)}.`,
    allJobs: `${subject}.job.*.*`,
    receipt: `${subject}.receipt`,
    state: (runId: string) => `${subject}.state.${tokenOf(runId)}`,
    allStates: `${subject}.state.*`,
    control: `${subject}.control`,
    report: `${subject}.report`,
    obeyed: `${subject}.obeyed`,
    coordinator: `${subject}.coordinator`,
  };
}

export type QueueNames = ReturnType<typeof namesOf>;

/** Consumer of the jobs; its acknowledgement timeout is the lease. */
export const workersConsumer = "workers";

/** Maximum number of waiting requests of workers; the default would be 512. */
const mostWaiting = 65_536;

/** Converts to nanoseconds, the unit of JetStream. */
const nanos = (ms: number): number => ms * 1_000_000;

export type QueueConfiguration = {
  readonly leaseMs: number;
  /** Maximum number of concurrent leases of all workers. */
  readonly maxLeases: number | null;
};

/**
 * Creates the streams and the workers' consumer if they are missing. Resolves with the creation
 * time of each stream.
 */
export async function makeStreams(
  { jsm }: NatsLink,
  names: QueueNames,
  { leaseMs, maxLeases }: QueueConfiguration,
): Promise<readonly string[]> {
  const kept = { storage: "file", discard: "old", max_consumers: -1 };
  const wanted = [
    { ...kept, name: names.jobs, subjects: [names.allJobs], retention: "workqueue", max_msgs_per_subject: 1 },
    { ...kept, name: names.receipts, subjects: [names.receipt], retention: "workqueue" },
    { ...kept, name: names.states, subjects: [names.allStates], retention: "limits", max_msgs_per_subject: 1 },
  ];
  const made: StreamInfo[] = [];
  for (const one of wanted) {
    // A stream of an earlier coordinator may have another configuration.
    made.push(await jsm.streams.add(one).catch(() => jsm.streams.update(one.name, one)));
  }
  const workers = {
    durable_name: workersConsumer,
    ack_policy: "explicit",
    ack_wait: nanos(leaseMs),
    max_deliver: -1,
    max_ack_pending: maxLeases ?? -1,
    max_waiting: mostWaiting,
  };
  await jsm.consumers.add(names.jobs, workers).catch(() => jsm.consumers.update(names.jobs, workersConsumer, workers));
  return made.map(({ created }) => created);
}

/**
 * Creates the consumer of one coordinator, after removing those of earlier coordinators. Messages
 * that they had not acknowledged are delivered again.
 */
export async function takeOverReceipts(
  { jsm }: NatsLink,
  names: QueueNames,
  own: string,
  leaseMs: number,
): Promise<void> {
  for await (const { name } of jsm.consumers.list(names.receipts)) await jsm.consumers.delete(names.receipts, name);
  await jsm.consumers.add(names.receipts, {
    durable_name: own,
    ack_policy: "explicit",
    ack_wait: nanos(leaseMs),
    max_deliver: -1,
    max_ack_pending: 4096,
  });
}

/** Owner of the stream's consumer: this coordinator, another one, or none. */
export async function ownerOfReceipts(
  { jsm }: NatsLink,
  names: QueueNames,
  own: string,
): Promise<"own" | "other" | "none"> {
  let found: "other" | "none" = "none";
  for await (const { name } of jsm.consumers.list(names.receipts)) {
    if (name === own) return "own";
    found = "other";
  }
  return found;
}

/** The kept states in the form in which they were sent. */
export async function readStates({ jsm }: NatsLink, names: QueueNames): Promise<readonly Uint8Array[]> {
  const { state } = await jsm.streams.info(names.states, { subjects_filter: names.allStates });
  const states: Uint8Array[] = [];
  for (const subject of Object.keys(state.subjects ?? {})) {
    const message = await jsm.streams.getMessage(names.states, { last_by_subj: subject });
    if (message !== null) states.push(message.data);
  }
  return states;
}

/** Duration of the workers' leases, in milliseconds. Rejects if the consumer does not exist. */
export async function readLeaseMs({ jsm }: NatsLink, names: QueueNames): Promise<number> {
  const { config } = await jsm.consumers.info(names.jobs, workersConsumer);
  return (config.ack_wait ?? nanos(30_000)) / 1_000_000;
}
