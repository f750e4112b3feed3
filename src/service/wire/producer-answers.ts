// Answers of the operations on producers as clients read them.

import { z } from "zod";
import type { GroupJob } from "../group-job.ts";
import type { ProducerJob } from "../producer-job.ts";
import { answerGroup, groupAnswer } from "./answers.ts";

const count = z.int().min(0);

export const producerAnswer = z.object({
  id: z.string(),
  state: z
    .enum(["running", "paused", "lapsed", "draining", "ended", "cancelled", "failed"])
    .describe("lapsed: its trainer was not heard for lease_seconds; whatever its trainer asks lets it go on"),
  training: z.string().nullable(),
  lease_seconds: z.number(),
  lease_left_seconds: z.number().nullable().describe("until it lapses; null: it does not, or has"),
  version: count.describe("versions reported since it began"),
  weight_version: z.string().nullable(),
  split: z.string(),
  samples: count,
  batch_groups: count,
  max_staleness: count,
  running_episodes: count.describe("those that wait for a place too"),
  open_groups: count.describe("groups under way"),
  buffered: count.describe("groups that can be taken"),
  handed_over: count,
  batches: count.describe("batches handed over; the number of the next one"),
  dropped: z.record(z.string(), count).describe("dropped groups, by reason"),
});

export const batchAnswer = z.object({
  producer_id: z.string(),
  number: count,
  status: z
    .enum(["ready", "waiting", "ended"])
    .describe("waiting: ask again. ended: with the last groups, or none; no batch follows"),
  groups: z.array(
    groupAnswer.extend({ staleness: count.describe("versions by which its oldest token was older at hand-over") }),
  ),
  producer: producerAnswer,
});

export function answerProducer({
  producerId,
  request,
  split,
  status,
  weightVersion,
  batches,
  leaseLeftMs,
}: ProducerJob): z.infer<typeof producerAnswer> {
  return {
    id: producerId,
    state: status.state,
    training: request.training,
    lease_seconds: request.leaseMs / 1000,
    lease_left_seconds: leaseLeftMs === null ? null : leaseLeftMs / 1000,
    version: status.version,
    weight_version: weightVersion,
    split,
    samples: request.samples,
    batch_groups: request.batchGroups,
    max_staleness: request.maxStaleness,
    running_episodes: status.runningEpisodes,
    open_groups: status.openGroups,
    buffered: status.buffered,
    handed_over: status.handedOver,
    batches,
    dropped: { ...status.dropped },
  };
}

export function answerBatch(
  job: ProducerJob,
  batch: {
    readonly number: number;
    readonly status: "ready" | "waiting" | "ended";
    readonly groups: readonly { readonly group: GroupJob; readonly staleness: number }[];
  },
): z.infer<typeof batchAnswer> {
  return {
    producer_id: job.producerId,
    number: batch.number,
    status: batch.status,
    groups: batch.groups.map(({ group, staleness }) => ({ ...answerGroup(group), staleness })),
    producer: answerProducer(job),
  };
}
