// Bodies of the operations on producers as clients send them, and what they are read into.

import { z } from "zod";
import { dropZeroSignal, type GroupFilter, keepRewardRange, minGradedToTrain } from "../../rollout/index.ts";
import type { ProducerRequest } from "../producer-request.ts";
import { ServiceRefusal } from "../service-refusal.ts";
import {
  engine,
  samples,
  samplingParams,
  seed,
  split,
  taskIndex,
  toPolicy,
  training,
  weightVersion,
} from "./requests.ts";

const groups = (most: number) => z.int().min(1).max(most);
/** More is a mistake: every group has a record in memory. */
const mostGroups = 65_536;

export const producerBody = z.strictObject({
  samples,
  batch_groups: groups(mostGroups).describe("groups that the trainer takes for one version of the weights"),
  split,
  tasks: z
    .array(taskIndex)
    .min(1)
    .max(100_000)
    .nullish()
    .describe("indexes of tasks; absent: all of the split, in order"),
  passes: z.int().min(1).max(1_000_000).nullish().describe("how often the tasks are gone through; absent: without end"),
  curriculum: z.boolean().nullish().describe("prefer tasks that are passed sometimes; absent: in order"),
  seed,
  sampling_params: samplingParams.nullish(),
  engine: engine.nullish(),
  weight_version: weightVersion.nullish().describe("what the engine has now; absent: what was reported last"),
  training: training.nullish().describe("whose it is: only reports that name the same training reach it"),
  lease_seconds: z
    .number()
    .min(1)
    .max(2_000_000)
    .nullish()
    .describe("it begins nothing more when its trainer was not heard for so long, until it is; absent: 3600"),
  max_staleness: z
    .int()
    .min(0)
    .max(1024)
    .nullish()
    .describe("versions by which the oldest token may be older than the trainer's weights; absent: 1"),
  stale: z.enum(["drop", "requeue"]).nullish().describe("what becomes of groups that grew too old; absent: drop"),
  buffer_groups: groups(mostGroups * 1025)
    .nullish()
    .describe("groups that may be under way or wait; absent: max_staleness + 1 batches, 2 at least"),
  filters: z
    .array(z.string().min(1).max(64))
    .max(8)
    .nullish()
    .describe("reasons to drop a group: zero-signal, reward-range:<min>-<max>"),
  min_group: z
    .int()
    .min(1)
    .max(1024)
    .nullish()
    .describe("graded episodes without which a group is dropped; absent: 2, or 1 where samples is 1"),
  replacements: z
    .int()
    .min(0)
    .max(1000)
    .nullish()
    .describe("further episodes a group may play in place of those without a reward; absent: 0"),
  group_timeout_seconds: z
    .number()
    .gt(0)
    .max(2_000_000)
    .nullish()
    .describe("slow episodes are cancelled so long after the group's last one began; absent: they are waited for"),
  group_cutoff: z
    .enum(["keep", "drop"])
    .nullish()
    .describe("what becomes of a group that ran into group_timeout_seconds; absent: keep"),
});

export const batchBody = z.strictObject({
  groups: groups(mostGroups * 1025)
    .nullish()
    .describe("at most (max_staleness + 1) * batch_groups; absent: batch_groups"),
  wait_seconds: z.number().min(0).nullish().describe("wait so long for the groups before answering"),
});

/** Throws a `ServiceRefusal` for what does not go together. */
export function toProducerRequest(body: z.infer<typeof producerBody>): ProducerRequest {
  const minGraded = body.min_group ?? minGradedToTrain(body.samples);
  if (minGraded > body.samples) {
    refuse("min_group", `it is ${minGraded}, and a group has ${body.samples} samples`);
  }
  if (!body.group_timeout_seconds && body.group_cutoff) {
    refuse("group_cutoff", "it says what becomes of groups that ran into group_timeout_seconds, and there is none");
  }
  return {
    split: body.split ?? null,
    tasks: body.tasks ?? null,
    passes: body.passes ?? Infinity,
    curriculum: body.curriculum ?? false,
    samples: body.samples,
    batchGroups: body.batch_groups,
    seed: body.seed ?? null,
    policy: toPolicy(body.engine, body.sampling_params),
    maxStaleness: body.max_staleness ?? 1,
    stale: body.stale ?? "drop",
    bufferGroups: body.buffer_groups ?? null,
    groups: {
      filters: (body.filters ?? []).map((name) => toFilter(name, body.samples)),
      minGraded,
      replacements: body.replacements ?? 0,
      cutoff: body.group_timeout_seconds
        ? { afterMs: body.group_timeout_seconds * 1000, policy: body.group_cutoff ?? "keep" }
        : null,
    },
    weightVersion:
      body.weight_version === undefined || body.weight_version === null ? null : String(body.weight_version),
    training: body.training ?? null,
    leaseMs: (body.lease_seconds ?? 3600) * 1000,
  };
}

function toFilter(name: string, groupSize: number): GroupFilter {
  if (name === "zero-signal") {
    if (groupSize > 1) return dropZeroSignal();
    refuse("filters", "zero-signal compares the episodes of a group, and samples is 1");
  }
  const [, min, max] = /^reward-range:(-?[\d.]+)-(-?[\d.]+)$/.exec(name) ?? [];
  if (Number(min) <= Number(max)) return keepRewardRange({ min: Number(min), max: Number(max) });
  return refuse("filters", "there are zero-signal and reward-range:<min>-<max>, like reward-range:0.1-0.9");
}

function refuse(field: string, why: string): never {
  throw new ServiceRefusal("bad-request", `Cannot read the request: field "${field}": ${why}; see /openapi.json.`);
}

/** The number of a batch, from the path. Throws a `ServiceRefusal`. */
export function readNumber(text: string | undefined): number {
  if (text !== undefined && /^(0|[1-9]\d{0,8})$/.test(text)) return Number(text);
  throw new ServiceRefusal("bad-request", "Cannot read the request: batches are numbered 0, 1, 2 and so on.");
}
