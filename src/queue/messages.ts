// Checks of the messages that leave a queue: they cross processes and machines, so each is parsed
// as untrusted input. The limits are those that honest senders observe; longer values were cut
// before sending.

import { z } from "zod";
import { boundaries, type EventCounts, type Failure, messageOf, type ModelUsage } from "../core/index.ts";
import type { Control, Job, Receipt, RunState, WorkerReport } from "./job-queue.ts";
import { anyNames } from "../lib/any-names.ts";

/** Maximum length of a failure message in a receipt. */
const longestFailure = 2000;
/** Maximum number of names in a table of counts. Further ones are summed under "other". */
const mostNames = 64;

const id = z.string().min(1).max(1024);
const whole = z.int().min(0);
const version = z.string().max(1024).nullable();
const counts = anyNames(whole)
  .refine((given) => Object.keys(given).every((name) => name.length <= 256), "a name is too long")
  .refine((given) => Object.keys(given).length <= mostNames + 1, "too many names");
/** Name of a worker, which also names a folder, so it cannot be a path. */
const workerName = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/);

const failure: z.ZodType<Failure> = z.object({
  boundary: z.enum(boundaries),
  code: z.string().max(256),
  message: z.string().max(longestFailure + 1),
  retryable: z.boolean(),
  cause: z
    .string()
    .max(longestFailure + 1)
    .nullable(),
});

const details: z.ZodType<Receipt["details"]> = z.object({
  failure: failure.nullable(),
  ending: z.string().max(256).nullable(),
  metrics: anyNames(z.number()).refine((given) => Object.keys(given).every((name) => name.length <= 256)),
  weightSpans: z.array(z.object({ dispatch: version, reply: version })).max(4096),
  samples: whole,
  trainedTokens: whole,
  dropped: counts,
});

const usage: z.ZodType<ModelUsage> = z.object({
  modelCalls: whole,
  inputTokens: whole,
  outputTokens: whole,
  cost: z.number().min(0).nullable(),
});

const eventCounts: z.ZodType<EventCounts> = z.object({
  turns: whole,
  sampledTokens: whole,
  recordedTurns: whole,
  recordedSampledTokens: whole,
  promptTokens: whole,
  retries: whole,
  spelledTokens: whole,
  unlikelyTokens: whole,
  cutResults: whole,
  closeFailures: whole,
  problems: counts,
  deviations: counts,
  agentUsage: usage,
  userUsage: usage,
  judgeUsage: usage,
});

const job: z.ZodType<Job> = z.object({
  runId: id,
  fence: whole,
  episodeId: id,
  groupId: id,
  sampleIndex: whole,
  split: z.string().max(256),
  taskIndex: whole,
  contentHash: z.string().max(256),
  seed: whole,
  sampling: z.string().max(65_536).nullable(),
  engineUrl: z.string().max(4096).nullable(),
  shards: z.string().max(4096).nullable(),
});

const receipt: z.ZodType<Receipt> = z.object({
  runId: id,
  fence: whole,
  episodeId: id,
  worker: workerName,
  // The size of the message limits the strings in it; the store checks each field.
  entry: anyNames(z.unknown(), { name: z.string().max(64) }),
  details,
  counts: eventCounts,
  origin: z.enum(["new", "resumed", "stored"]),
});

const state: z.ZodType<RunState> = z.object({
  runId: id,
  fence: whole,
  revision: whole,
  version: z.string().max(256),
  settings: z.string().max(262_144),
  phase: z.enum(["running", "paused", "ended"]),
  weightVersion: version,
  workers: z.int().min(1),
});

const control: z.ZodType<Control> = z.discriminatedUnion("type", [
  z.object({ type: z.literal("run"), state }),
  z.object({ type: z.literal("cancel"), runId: id, episodeIds: z.array(id).max(100_000) }),
]);

const report: z.ZodType<WorkerReport> = z.object({
  worker: workerName,
  version: z.string().max(256),
  phase: z.enum(["working", "draining", "refused", "left"]),
  reason: z.string().max(10_000).nullable(),
  capacity: whole,
  held: whole,
  callsInFlight: whole,
  observed: z.object({ calls: whole, sampledTokens: whole, overloads: whole }),
  unfinished: z.object({ turns: whole, sampledTokens: whole }),
});

/**
 * Parsers of messages: each returns the message without unknown fields, and throws a plain error
 * that names the first invalid field.
 */
export const readJob = reader("job", job);
export const readReceipt = reader("receipt", receipt);
export const readControl = reader("control message", control);
export const readReport = reader("report of a worker", report);

function reader<T>(what: string, schema: z.ZodType<T>): (value: unknown) => T {
  return (value) => {
    const read = schema.safeParse(value);
    if (read.success) return read.data;
    const [issue] = read.error.issues;
    throw new Error(`Cannot read a ${what}: ${issue?.path.join(".") || "it"}: ${issue?.message ?? "is invalid"}.`);
  };
}

/** Result of `read`, or `null` and a notice for an invalid message. */
export function readOrNotice<T>(
  read: (value: unknown) => T,
  value: unknown,
  onNotice: (message: string) => void,
): T | null {
  try {
    return read(value);
  } catch (error) {
    onNotice(`Notice: a message of the queue was dropped. ${messageOf(error)}`);
    return null;
  }
}
