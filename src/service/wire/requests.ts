// Bodies and queries of the service as clients send them: the schemas, which are also the document's, and what they are read
// into. snake_case ends here. What a schema does not name is refused, so that a misspelt parameter is not silently ignored.

import { z } from "zod";
import type { SamplingParams } from "../../core/index.ts";
import { httpAddress } from "../../lib/address.ts";
import type { GroupRequest } from "../group-job.ts";
import type { PolicyRequest } from "../service-parts.ts";
import { ServiceRefusal } from "../service-refusal.ts";

const none = z.union([z.null(), z.array(z.never()).length(0), z.literal("")]);

/** The dictionary that slime hands to a rollout function. What concerns text alone is taken and not used: we send and read ids. */
export const samplingParams = z
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
    skip_special_tokens: z.boolean().nullish().describe("taken and not used"),
    spaces_between_special_tokens: z.boolean().nullish().describe("taken and not used"),
    no_stop_trim: z.boolean().nullish().describe("taken and not used"),
  })
  .describe("sampling parameters under SGLang's names; absent: the service's own");

export const engine = z
  .union([
    z.strictObject({ url: z.string().min(1).max(2048) }),
    z.strictObject({ router_ip: z.string().min(1).max(255), router_port: z.int().min(1).max(65_535) }),
  ])
  .describe("where the policy is served, as an address or as slime's router; absent: the engine of the service");

export const taskIndex = z
  .int()
  .min(0)
  .max(2 ** 31);
export const split = z.string().min(1).max(64).nullish().describe("absent: the service's own");
export const seed = z
  .int()
  .min(0)
  .max(2 ** 32 - 1)
  .nullish()
  .describe("absent: derived from the service's seed and the request");
export const samples = z.int().min(1).max(1024).describe("episodes of a group");
export const weightVersion = z.union([z.string().min(1).max(256), z.int()]);

const common = {
  task_index: taskIndex,
  split,
  seed,
  sampling_params: samplingParams.nullish(),
  engine: engine.nullish(),
  wait_seconds: z.number().min(0).nullish().describe("wait so long for the end before answering"),
};

export const episodeBody = z.strictObject(common);
export const groupBody = z.strictObject({
  ...common,
  samples,
});
export const training = z.string().min(1).max(255);
export const weightsBody = z.strictObject({
  version: weightVersion,
  training: training.nullish().describe("whose weights: its producers alone are told; absent: those that name none"),
});

/** What a body asks for; single episodes are groups of one. */
export function toGroupRequest(body: z.infer<typeof episodeBody> & { readonly samples?: number }): GroupRequest {
  const { task_index, sampling_params, engine: where } = body;
  return {
    split: body.split ?? null,
    taskIndex: task_index,
    samples: body.samples ?? 1,
    seed: body.seed ?? null,
    visit: 1,
    replacements: 0,
    policy: toPolicy(where, sampling_params),
  };
}

export function toPolicy(
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

/** Throws a `ServiceRefusal` that names the first field that is wrong. */
export function readBody<T>(schema: z.ZodType<T>, value: unknown): T {
  const read = schema.safeParse(value);
  if (read.success) return read.data;
  const [issue] = read.error.issues;
  const place = issue?.path.map(String).join(".") ?? "";
  throw new ServiceRefusal(
    "bad-request",
    `Cannot read the request${place === "" ? "" : `: field "${place}"`}: ${issue?.message ?? "it does not fit"}; see /openapi.json.`,
  );
}

/** Queries arrive as texts. */
export const waitQuery = z.coerce.number().min(0).default(0);
export const formatQuery = z.string().min(1).max(64);
