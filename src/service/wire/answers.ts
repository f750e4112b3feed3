// Answers of the service as clients read them: the schemas of the document, and what fills them in. snake_case begins here.

import { z } from "zod";
import type { EpisodeJob } from "../episode-job.ts";
import type { EpisodeSummary } from "../episode-summary.ts";
import type { GroupJob } from "../group-job.ts";

const count = z.int().min(0);

const failure = z.object({
  boundary: z.string(),
  code: z.string(),
  message: z.string(),
  retryable: z.boolean(),
});

export const episodeAnswer = z.object({
  id: z.string(),
  group_id: z.string(),
  status: z.enum(["waiting", "running", "ended"]),
  task_id: z.string(),
  task_index: count,
  split: z.string(),
  sample_index: count,
  seed: count,
  outcome: z.enum(["completed", "truncated", "aborted", "failed"]).nullable(),
  stop_reason: z.string().nullable(),
  reward: z.number().nullable(),
  failure: failure.nullable(),
  metrics: z.record(z.string(), z.number()),
  turns: count.nullable(),
  sampled_tokens: count.nullable(),
  weight_versions: z.array(z.string().nullable()),
  problems: z.record(z.string(), count),
});

export const groupAnswer = z.object({
  id: z.string(),
  status: z.enum(["waiting", "running", "ended"]),
  task_index: count,
  samples: count,
  episodes: z.array(episodeAnswer),
});

export const samplesAnswer = z.object({
  format: z.string(),
  episodes: z.array(episodeAnswer),
  samples: z.array(z.unknown()).describe("rows in the layout of the format, one for each branch of each episode"),
  dropped_tokens: z.array(z.object({ episode_id: z.string(), turn: count, count, reason: z.string() })),
});

export const infoAnswer = z.object({
  name: z.string(),
  environment: z.string(),
  splits: z.record(z.string(), count).describe("name and number of tasks"),
  default_split: z.string(),
  formats: z.array(z.string()),
  status: z.enum(["open", "paused", "closing"]),
  weight_version: z.string().nullable(),
  running: count,
  waiting: count,
  limits: z.object({ concurrency: count, max_waiting: count, max_body_bytes: count, max_wait_seconds: z.number() }),
});

export const okAnswer = z.object({ status: z.enum(["open", "paused", "closing"]) });
export const weightsAnswer = z.object({ weight_version: z.string() });
export const errorAnswer = z.object({ error: z.object({ code: z.string(), message: z.string() }) });

export function answerEpisode({
  place,
  status,
  summary,
}: Pick<EpisodeJob, "place" | "status" | "summary">): z.infer<typeof episodeAnswer> {
  return {
    id: place.episodeId,
    group_id: place.groupId,
    status,
    task_id: place.task.id,
    task_index: place.task.index,
    split: place.task.split,
    sample_index: place.sampleIndex,
    seed: place.seed,
    ...answerSummary(summary),
  };
}

function answerSummary(summary: EpisodeSummary | null) {
  const known = summary?.failure ?? null;
  return {
    outcome: summary?.outcome ?? null,
    stop_reason: summary?.stopReason ?? null,
    reward: summary?.reward ?? null,
    failure:
      known === null
        ? null
        : { boundary: known.boundary, code: known.code, message: known.message, retryable: known.retryable },
    metrics: { ...summary?.metrics },
    turns: summary?.turns ?? null,
    sampled_tokens: summary?.sampledTokens ?? null,
    weight_versions: [...(summary?.weightVersions ?? [])],
    problems: { ...summary?.problems },
  };
}

export function answerGroup({ groupId, request, jobs }: GroupJob): z.infer<typeof groupAnswer> {
  return {
    id: groupId,
    status: statusOf(jobs),
    task_index: request.taskIndex,
    samples: jobs.length,
    episodes: jobs.map(answerEpisode),
  };
}

function statusOf(jobs: readonly EpisodeJob[]): "waiting" | "running" | "ended" {
  if (jobs.every(({ status }) => status === "ended")) return "ended";
  return jobs.every(({ status }) => status === "waiting") ? "waiting" : "running";
}
