// Bodies and queries of the service in the form that clients send: the schemas, which the OpenAPI
// document also uses, and the values into which they are parsed. snake_case ends here. Fields that
// a schema does not name are refused, so that a misspelled one is not ignored.

import { z } from "zod";
import type { SamplingParams } from "../core/index.ts";
import { httpAddress } from "../lib/address.ts";
import { dropZeroSignal, type GroupFilter, keepRewardRange, minGradedToTrain } from "../rollout/index.ts";
import type { GroupRequest } from "./jobs.ts";
import { ServiceError } from "./service-error.ts";
import type { PolicyRequest } from "./service-options.ts";

/** A field that may be absent or null. */
function optional<T extends z.ZodType>(schema: T, description?: string): z.ZodOptional<z.ZodNullable<T>> {
  return description === undefined ? schema.nullish() : schema.nullish().describe(description);
}

const name = z.string().min(1).max(64);
const training = z.string().min(1).max(255);
const whole = (least: number, most: number) => z.int().min(least).max(most);
const seconds = z.number().min(0);
const uint32 = whole(0, 2 ** 32 - 1);
const taskIndex = whole(0, 2 ** 31);
const weightVersion = z.union([z.string().min(1).max(256), z.int()]);

const none = optional(
  z.union([z.null(), z.array(z.never()).length(0), z.literal("")]),
  "must be empty: the chat template decides where an action ends",
);
const ignored = optional(z.boolean(), "accepted and ignored");

/**
 * The dictionary of sampling parameters that slime passes to a rollout function. Parameters that
 * affect only text are ignored, because we send and read token ids.
 */
const samplingParams = z
  .strictObject({
    temperature: optional(z.number().min(0).max(100)),
    top_p: optional(z.number().gt(0).max(1)),
    top_k: optional(z.int().min(-1)),
    min_p: optional(z.number().min(0).max(1)),
    repetition_penalty: optional(z.number().gt(0).max(2)),
    max_new_tokens: optional(z.int().min(1)),
    sampling_seed: optional(uint32, "seed of every engine call of the episode"),
    stop: none,
    stop_token_ids: none,
    skip_special_tokens: ignored,
    spaces_between_special_tokens: ignored,
    no_stop_trim: ignored,
  })
  .describe("sampling parameters under SGLang's names; absent: the service's own");

const engine = z
  .union([
    z.strictObject({ url: z.string().min(1).max(2048) }),
    z.strictObject({ router_ip: z.string().min(1).max(255), router_port: whole(1, 65_535) }),
  ])
  .describe("server of the policy, as an address or as slime's router; absent: the engine of the service");

const common = {
  split: optional(name, "absent: the service's own"),
  seed: optional(uint32, "absent: derived from the service's seed and the request"),
  sampling_params: optional(samplingParams),
  engine: optional(engine),
};
const oneTask = {
  task_index: taskIndex,
  ...common,
  wait_seconds: optional(seconds, "seconds to wait for the end before responding"),
  rows: optional(
    name,
    "format of the training rows to include in the answer once everything has ended; absent: no rows",
  ),
};
/** Size of a group, under both of its names. */
const sizes = {
  group_size: optional(whole(1, 1024), "episodes per group; required, under this name or as samples"),
  samples: optional(whole(1, 1024), "former name of group_size"),
};

export const episodeBody = z.strictObject(oneTask);
export const groupBody = z.strictObject({ ...oneTask, ...sizes });
export const weightsBody = z.strictObject({
  version: weightVersion,
  mismatch: optional(
    z.strictObject({
      mean_kl: optional(z.number(), "mean over the trained tokens of an estimate of KL(sampler || trainer), in nats"),
      largest: optional(z.number().min(0), "largest absolute difference of a token's logprobs"),
    }),
    "difference between the recorded logprobs and the trainer's on its last batch; shown at /metrics by this version",
  ),
  training: optional(
    training,
    "training that the weights belong to: only its producers receive the report; absent: producers without a training",
  ),
  adapter: optional(
    z.strictObject({
      path: optional(z.string().min(1).max(4096), "folder of the adapter as the servers see it; absent: it is loaded"),
      unload: optional(
        z.array(z.string().min(1).max(256)).max(64),
        "adapters to unload once their last group has ended",
      ),
    }),
    "the version is the name of a LoRA adapter, under which the next groups begin; groups in flight keep theirs",
  ),
});

/** Maximum number of groups; more are a mistake, because every group has a record in memory. */
const mostGroups = 65_536;

export const producerBody = z.strictObject({
  ...sizes,
  ...common,
  batch_groups: whole(1, mostGroups).describe("groups that the trainer takes per version of the weights"),
  tasks: optional(z.array(taskIndex).min(1).max(100_000), "task indexes; absent: all tasks of the split, in order"),
  passes: optional(whole(1, 1_000_000), "passes over the tasks; absent: unlimited"),
  curriculum: optional(z.boolean(), "prefer tasks that are sometimes passed; absent: run tasks in order"),
  weight_version: optional(weightVersion, "current weight version of the engine; absent: the last one reported"),
  training: optional(
    training,
    "training that the producer belongs to: it receives only reports that name this training",
  ),
  lease_seconds: optional(
    z.number().min(1).max(2_000_000),
    "seconds without a request from its trainer after which it starts nothing new until the next request; absent: 3600",
  ),
  max_staleness: optional(
    whole(0, 1024),
    "maximum number of versions by which the oldest token may be behind the trainer's weights; absent: 1",
  ),
  stale: optional(z.enum(["drop", "requeue"]), "what to do with groups that have become too stale; absent: drop"),
  buffer_groups: optional(
    whole(1, mostGroups * 1025),
    "maximum number of groups in flight or waiting; absent: max_staleness + 1 batches, at least 2",
  ),
  filters: optional(z.array(name).max(8), "filters that drop groups: zero-signal, reward-range:<min>-<max>"),
  min_group: optional(
    whole(1, 1024),
    "minimum number of graded episodes in a group; below it, the group is dropped; absent: 2, or 1 for groups of one",
  ),
  replacements: optional(
    whole(0, 1000),
    "extra episodes that a group may run to replace those without a reward; absent: 0",
  ),
  group_timeout_seconds: optional(
    z.number().gt(0).max(2_000_000),
    "seconds after the start of a group's last episode when slow episodes are cancelled; absent: never",
  ),
  group_cutoff: optional(
    z.enum(["keep", "drop"]),
    "what to do with a group that reached group_timeout_seconds; absent: keep",
  ),
});

export const batchBody = z.strictObject({
  groups: optional(
    whole(1, mostGroups * 1025),
    "number of groups, at most (max_staleness + 1) * batch_groups; absent: batch_groups",
  ),
  wait_seconds: optional(seconds, "seconds to wait for the groups before responding"),
});

/** Queries are strings. */
export const waitQuery = z.coerce.number().min(0).default(0);
export const turnRewardsQuery = z.enum(["keep", "ignore"]).optional();
export const formatQuery = name;

/** Validates a value. Throws a `ServiceError` that names the first invalid field. */
export function readBody<T>(schema: z.ZodType<T>, value: unknown): T {
  const read = schema.safeParse(value);
  if (read.success) return read.data;
  const [issue] = read.error.issues;
  return refuse(issue?.path.map(String).join(".") ?? "", issue?.message ?? "it does not fit");
}

function refuse(field: string, why: string): never {
  const place = field === "" ? "" : `: field "${field}"`;
  throw new ServiceError("bad-request", `Cannot read the request${place}: ${why}; see /openapi.json.`);
}

/** Number of a batch, from the path. Throws a `ServiceError`. */
export function readNumber(text: string | undefined): number {
  if (text !== undefined && /^(0|[1-9]\d{0,8})$/.test(text)) return Number(text);
  throw new ServiceError("bad-request", "Cannot read the request: batches are numbered 0, 1, 2 and so on.");
}

/**
 * Parses a body of a single episode, which is a group of one, or of a group: only groups have a
 * size. Throws a `ServiceError`.
 */
export function readGroup(value: unknown): GroupRequest {
  const isGroup = typeof value === "object" && value !== null && ("samples" in value || "group_size" in value);
  const body: z.infer<typeof groupBody> = readBody(isGroup ? groupBody : episodeBody, value);
  return toGroupRequest(body, isGroup ? sizeOf(body) : 1);
}

export function toGroupRequest(body: z.infer<typeof episodeBody>, groupSize: number): GroupRequest {
  const { split = null, task_index: index, seed = null } = body;
  return { split, taskIndex: index, groupSize, seed, visit: 1, replacements: 0, policy: toPolicy(body) };
}

type Sizes = { readonly group_size?: number | null | undefined; readonly samples?: number | null | undefined };

/**
 * Size of a group. Throws a `ServiceError` if the size is missing, or two different sizes are
 * given.
 */
export function sizeOf({ group_size, samples }: Sizes): number {
  const size = group_size ?? samples ?? refuse("samples", "the size of a group is missing; set group_size");
  if ((samples ?? size) !== size) refuse("group_size", `it is ${size}, but its older name samples is ${samples}`);
  return size;
}

/** Parsed request for a producer. The defaults of its fields are in their descriptions. */
export type ProducerRequest = ReturnType<typeof readProducer>;

/** Parses the request of a producer. Throws a `ServiceError`, also for contradictory fields. */
export function readProducer(value: unknown) {
  const body = readBody(producerBody, value);
  const { split = null, tasks = null, seed = null, weight_version: version, training: owner = null } = body;
  const groupSize = sizeOf(body);
  const minGraded = body.min_group ?? minGradedToTrain(groupSize);
  if (minGraded > groupSize) refuse("min_group", `it is ${minGraded}, and a group has ${groupSize} episodes`);
  const { group_timeout_seconds: timeout, group_cutoff: policy } = body;
  if (!timeout && policy) {
    refuse("group_cutoff", "it applies to groups that reach group_timeout_seconds, which is not set");
  }
  const groups = {
    filters: (body.filters ?? []).map((filter) => toFilter(filter, groupSize)),
    minGraded,
    replacements: body.replacements ?? 0,
    cutoff: timeout ? { afterMs: timeout * 1000, policy: policy ?? "keep" } : null,
  };
  return {
    split,
    tasks,
    passes: body.passes ?? Infinity,
    curriculum: body.curriculum ?? false,
    groupSize,
    batchGroups: body.batch_groups,
    seed,
    policy: toPolicy(body),
    /** Filters as requested; in `production` they are functions. */
    filters: body.filters ?? [],
    production: {
      maxStaleness: body.max_staleness ?? 1,
      stale: body.stale ?? "drop",
      groups,
      ...(body.buffer_groups && { bufferGroups: body.buffer_groups }),
    },
    weightVersion: version === undefined || version === null ? null : String(version),
    training: owner,
    leaseMs: (body.lease_seconds ?? 3600) * 1000,
  };
}

function toPolicy(body: Pick<z.infer<typeof episodeBody>, "engine" | "sampling_params">): PolicyRequest {
  const { engine: where, sampling_params: given } = body;
  const named: { readonly [Key in keyof SamplingParams]?: SamplingParams[Key] | null | undefined } = {
    temperature: given?.temperature,
    topP: given?.top_p,
    topK: given?.top_k,
    minP: given?.min_p,
    repetitionPenalty: given?.repetition_penalty,
    maxNewTokens: given?.max_new_tokens,
    seed: given?.sampling_seed,
  };
  const sampling = Object.fromEntries(Object.entries(named).filter(([, value]) => (value ?? null) !== null));
  if (!where) return { engineUrl: null, sampling };
  return { engineUrl: "url" in where ? where.url : httpAddress(where.router_ip, where.router_port), sampling };
}

function toFilter(filter: string, groupSize: number): GroupFilter {
  if (filter === "zero-signal") {
    if (groupSize > 1) return dropZeroSignal();
    refuse("filters", "zero-signal compares the episodes of a group, but the group size is 1");
  }
  const [, min, max] = /^reward-range:(-?[\d.]+)-(-?[\d.]+)$/.exec(filter) ?? [];
  if (Number(min) <= Number(max)) return keepRewardRange({ min: Number(min), max: Number(max) });
  return refuse("filters", "the filters are zero-signal and reward-range:<min>-<max>, like reward-range:0.1-0.9");
}
