// Bodies and queries of the service as clients send them: the schemas, which are also those of the OpenAPI document, and the values
// they are read into. snake_case ends here. Fields that a schema does not name are refused, so that a misspelt one is not ignored.

import { z } from "zod";

import type { SamplingParams } from "../core/index.ts";
import { httpAddress } from "../lib/address.ts";
import { dropZeroSignal, type GroupFilter, keepRewardRange, minGradedToTrain } from "../rollout/index.ts";
import type { GroupRequest } from "./jobs.ts";
import type { ProducerRequest } from "./producer-request.ts";
import { ServiceError } from "./service-error.ts";
import type { PolicyRequest } from "./service-options.ts";

const none = z.union([z.null(), z.array(z.never()).length(0), z.literal("")]);

/** The dictionary that slime gives a rollout function. Parameters of text alone are ignored: we send and read ids. */
const samplingParams = z
  .strictObject({
    temperature: z.number().min(0).max(100).nullish(),
    top_p: z.number().gt(0).max(1).nullish(),
    top_k: z.int().min(-1).nullish(),
    min_p: z.number().min(0).max(1).nullish(),
    repetition_penalty: z.number().gt(0).max(2).nullish(),
    max_new_tokens: z.int().min(1).nullish(),
    sampling_seed: z
      .int()
      .min(0)
      .max(2 ** 32 - 1)
      .nullish()
      .describe("of every engine call of the episode"),
    stop: none.nullish().describe("only empty: the chat template decides where an action ends"),
    stop_token_ids: none.nullish().describe("only empty: the chat template decides where an action ends"),
    skip_special_tokens: z.boolean().nullish().describe("accepted and ignored"),
    spaces_between_special_tokens: z.boolean().nullish().describe("accepted and ignored"),
    no_stop_trim: z.boolean().nullish().describe("accepted and ignored"),
  })
  .describe("sampling parameters under SGLang's names; absent: the service's own");

const engine = z
  .union([
    z.strictObject({ url: z.string().min(1).max(2048) }),
    z.strictObject({ router_ip: z.string().min(1).max(255), router_port: z.int().min(1).max(65_535) }),
  ])
  .describe("server of the policy, as an address or as slime's router; absent: the engine of the service");

const taskIndex = z
  .int()
  .min(0)
  .max(2 ** 31);
const split = z.string().min(1).max(64).nullish().describe("absent: the service's own");
const seed = z
  .int()
  .min(0)
  .max(2 ** 32 - 1)
  .nullish()
  .describe("absent: derived from the service's seed and the request");
const sizeField = z.int().min(1).max(1024).nullish();
/** A group's size under both of its names. */
const sizes = {
  group_size: sizeField.describe("episodes of a group; required, under this name or as samples"),
  samples: sizeField.describe("the older name of group_size"),
};
const weightVersion = z.union([z.string().min(1).max(256), z.int()]);

const common = {
  task_index: taskIndex,
  split,
  seed,
  sampling_params: samplingParams.nullish(),
  engine: engine.nullish(),
  wait_seconds: z.number().min(0).nullish().describe("seconds to wait for the end before responding"),
};

export const episodeBody = z.strictObject(common);
export const groupBody = z.strictObject({ ...common, ...sizes });
const training = z.string().min(1).max(255);
export const weightsBody = z.strictObject({
  version: weightVersion,
  training: training
    .nullish()
    .describe("whose weights: reported to its producers only; absent: to producers without a training"),
});

type Sizes = { readonly group_size?: number | null | undefined; readonly samples?: number | null | undefined };

/** Throws a `ServiceError` when there is none, or two that differ. */
export function sizeOf({ group_size, samples }: Sizes): number {
  const size = group_size ?? samples ?? refuse("samples", "the size of a group is missing; give group_size");
  if (samples !== undefined && samples !== null && samples !== size) {
    refuse("group_size", `it is ${size}, and its older name samples is ${samples}`);
  }
  return size;
}

/** Bodies of single episodes and of groups as they were logged: only a group has a size. */
export function readLoggedGroup(body: unknown): GroupRequest {
  const isGroup = typeof body === "object" && body !== null && ("samples" in body || "group_size" in body);
  if (!isGroup) return toGroupRequest(readBody(episodeBody, body));
  const group = readBody(groupBody, body);
  return toGroupRequest(group, sizeOf(group));
}

/** Single episodes are groups of one. */
export function toGroupRequest(body: z.infer<typeof episodeBody>, groupSize = 1): GroupRequest {
  const { task_index, sampling_params, engine: where } = body;
  return {
    split: body.split ?? null,
    taskIndex: task_index,
    groupSize,
    seed: body.seed ?? null,
    visit: 1,
    replacements: 0,
    policy: toPolicy(where, sampling_params),
  };
}

function toPolicy(
  where: z.infer<typeof engine> | null | undefined,
  sampling: z.infer<typeof samplingParams> | null | undefined,
): PolicyRequest {
  return { engineUrl: where ? urlOf(where) : null, sampling: toSampling(sampling ?? {}) };
}

function urlOf(where: z.infer<typeof engine>): string {
  if ("url" in where) return where.url;
  const { router_ip: host, router_port: port } = where;
  return httpAddress(host, port);
}

function toSampling(given: z.infer<typeof samplingParams>): Partial<SamplingParams> {
  const named: { readonly [Key in keyof SamplingParams]?: SamplingParams[Key] | null | undefined } = {
    temperature: given.temperature,
    topP: given.top_p,
    topK: given.top_k,
    minP: given.min_p,
    repetitionPenalty: given.repetition_penalty,
    maxNewTokens: given.max_new_tokens,
    seed: given.sampling_seed,
  };
  return Object.fromEntries(Object.entries(named).filter(([, value]) => value !== undefined && value !== null));
}

/** Throws a `ServiceError` that names the first field that is wrong. */
export function readBody<T>(schema: z.ZodType<T>, value: unknown): T {
  const read = schema.safeParse(value);
  if (read.success) return read.data;
  const [issue] = read.error.issues;
  const place = issue?.path.map(String).join(".") ?? "";
  throw new ServiceError(
    "bad-request",
    `Cannot read the request${place === "" ? "" : `: field "${place}"`}: ${issue?.message ?? "it does not fit"}; see /openapi.json.`,
  );
}

/** Queries are strings. */
export const waitQuery = z.coerce.number().min(0).default(0);
export const formatQuery = z.string().min(1).max(64);

const groups = (most: number) => z.int().min(1).max(most);
/** More is a mistake: every group has a record in memory. */
const mostGroups = 65_536;

export const producerBody = z.strictObject({
  ...sizes,
  batch_groups: groups(mostGroups).describe("groups that the trainer takes for one version of the weights"),
  split,
  tasks: z
    .array(taskIndex)
    .min(1)
    .max(100_000)
    .nullish()
    .describe("indexes of tasks; absent: all of the split, in order"),
  passes: z.int().min(1).max(1_000_000).nullish().describe("passes over the tasks; absent: without end"),
  curriculum: z.boolean().nullish().describe("prefer tasks that are sometimes passed; absent: in order"),
  seed,
  sampling_params: samplingParams.nullish(),
  engine: engine.nullish(),
  weight_version: weightVersion.nullish().describe("version that the engine has now; absent: the one reported last"),
  training: training
    .nullish()
    .describe("the training it belongs to: only reports that name the same training reach it"),
  lease_seconds: z
    .number()
    .min(1)
    .max(2_000_000)
    .nullish()
    .describe(
      "seconds without a request of its trainer after which it begins nothing more, until the next one; absent: 3600",
    ),
  max_staleness: z
    .int()
    .min(0)
    .max(1024)
    .nullish()
    .describe("versions by which the oldest token may be older than the trainer's weights; absent: 1"),
  stale: z.enum(["drop", "requeue"]).nullish().describe("treatment of groups that grew too old; absent: drop"),
  buffer_groups: groups(mostGroups * 1025)
    .nullish()
    .describe("groups that may be in flight or wait; absent: max_staleness + 1 batches, at least 2"),
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
    .describe("graded episodes without which a group is dropped; absent: 2, or 1 for groups of one"),
  replacements: z
    .int()
    .min(0)
    .max(1000)
    .nullish()
    .describe("further episodes a group may run in place of those without a reward; absent: 0"),
  group_timeout_seconds: z
    .number()
    .gt(0)
    .max(2_000_000)
    .nullish()
    .describe("seconds after the start of the group's last episode at which slow ones are cancelled; absent: never"),
  group_cutoff: z
    .enum(["keep", "drop"])
    .nullish()
    .describe("treatment of a group that reached group_timeout_seconds; absent: keep"),
});

export const batchBody = z.strictObject({
  groups: groups(mostGroups * 1025)
    .nullish()
    .describe("at most (max_staleness + 1) * batch_groups; absent: batch_groups"),
  wait_seconds: z.number().min(0).nullish().describe("seconds to wait for the groups before responding"),
});

/** Throws a `ServiceError` for fields that contradict each other. */
export function toProducerRequest(body: z.infer<typeof producerBody>): ProducerRequest {
  const size = sizeOf(body);
  const minGraded = body.min_group ?? minGradedToTrain(size);
  if (minGraded > size) refuse("min_group", `it is ${minGraded}, and a group has ${size} episodes`);
  if (!body.group_timeout_seconds && body.group_cutoff) {
    refuse("group_cutoff", "it applies to groups that reach group_timeout_seconds, which is not set");
  }
  return {
    split: body.split ?? null,
    tasks: body.tasks ?? null,
    passes: body.passes ?? Infinity,
    curriculum: body.curriculum ?? false,
    groupSize: size,
    batchGroups: body.batch_groups,
    seed: body.seed ?? null,
    policy: toPolicy(body.engine, body.sampling_params),
    maxStaleness: body.max_staleness ?? 1,
    stale: body.stale ?? "drop",
    bufferGroups: body.buffer_groups ?? null,
    groups: {
      filters: (body.filters ?? []).map((name) => toFilter(name, size)),
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
    refuse("filters", "zero-signal compares the episodes of a group, and its size is 1");
  }
  const [, min, max] = /^reward-range:(-?[\d.]+)-(-?[\d.]+)$/.exec(name) ?? [];
  if (Number(min) <= Number(max)) return keepRewardRange({ min: Number(min), max: Number(max) });
  return refuse("filters", "the filters are zero-signal and reward-range:<min>-<max>, like reward-range:0.1-0.9");
}

function refuse(field: string, why: string): never {
  throw new ServiceError("bad-request", `Cannot read the request: field "${field}": ${why}; see /openapi.json.`);
}

/** The number of a batch, from the path. Throws a `ServiceError`. */
export function readNumber(text: string | undefined): number {
  if (text !== undefined && /^(0|[1-9]\d{0,8})$/.test(text)) return Number(text);
  throw new ServiceError("bad-request", "Cannot read the request: batches are numbered 0, 1, 2 and so on.");
}
