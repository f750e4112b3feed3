// Responses of the service in the form that clients read: their schemas, which the OpenAPI document
// also uses, and the functions that build them. snake_case begins here and in `episode-view.ts`.

import { z } from "zod";

import { count, episodeSummary, type EventView } from "./episode-view.ts";
import type { EpisodeJob, GroupJob } from "./jobs.ts";
import type { ProducerJob } from "./producer-job.ts";

const jobStatus = z.enum(["waiting", "running", "ended"]);
export const serviceStatus = z.enum(["open", "paused", "degraded", "draining"]);

export const episodeAnswer = z.object({
  id: z.string(),
  group_id: z.string(),
  status: jobStatus,
  task_id: z.string(),
  task_index: count,
  split: z.string(),
  sample_index: count,
  seed: count,
  ...episodeSummary.shape,
});

export const groupAnswer = z.object({
  id: z.string(),
  status: jobStatus,
  task_index: count,
  group_size: count.describe("requested episodes"),
  samples: count.describe("episodes so far, replacements included"),
  episodes: z.array(episodeAnswer),
});

export const samplesAnswer = z.object({
  format: z.string(),
  episodes: z.array(episodeAnswer),
  samples: z.array(z.unknown()).describe("rows in the requested format, one for each branch of each episode"),
  dropped_tokens: z.array(z.object({ episode_id: z.string(), turn: count, count, reason: z.string() })),
});

export const infoAnswer = z.object({
  name: z.string(),
  environment: z.string(),
  splits: z.record(z.string(), count).describe("name of each split and its number of tasks"),
  default_split: z.string(),
  formats: z.array(z.string()),
  status: serviceStatus,
  weight_version: z.string().nullable(),
  running: count,
  waiting: count,
  limits: z.object({ concurrency: count, max_waiting: count, max_body_bytes: count, max_wait_seconds: z.number() }),
});

export const okAnswer = z.object({ status: serviceStatus });
export const busyAnswer = okAnswer.extend({ reason: z.string() });
export const weightsAnswer = z.object({
  weight_version: z.string(),
  servers: z
    .array(z.string().nullable())
    .readonly()
    .optional()
    .describe("once servers were contacted: the version that each one reports now; null: it reports none"),
  warning: z.string().nullish().describe("message if a server reports a version other than this one"),
});
export const errorAnswer = z.object({ error: z.object({ code: z.string(), message: z.string() }) });

export const producerAnswer = z.object({
  id: z.string(),
  state: z
    .enum(["running", "paused", "lapsed", "draining", "ended", "cancelled", "failed"])
    .describe("lapsed: no request from its trainer for lease_seconds; the next one resumes it"),
  training: z.string().nullable(),
  lease_seconds: z.number(),
  lease_left_seconds: z.number().nullable().describe("seconds until it lapses; null: it does not lapse, or has lapsed"),
  version: count.describe("versions reported since it started"),
  weight_version: z.string().nullable(),
  split: z.string(),
  group_size: count,
  samples: count.describe("former name of group_size"),
  batch_groups: count,
  max_staleness: count,
  running_episodes: count.describe("including episodes that wait for a free slot"),
  open_groups: count.describe("groups in flight"),
  buffered: count.describe("groups ready to be taken"),
  handed_over: count,
  batches: count.describe("batches handed over; also the number of the next batch"),
  dropped: z.record(z.string(), count).describe("dropped groups, by reason"),
});

export const batchAnswer = z.object({
  producer_id: z.string(),
  number: count,
  status: z
    .enum(["ready", "waiting", "ended"])
    .describe("waiting: request it again. ended: holds the last groups, if any; no batch follows"),
  groups: z.array(
    groupAnswer.extend({
      staleness: count.describe("versions by which its oldest token was behind the weights at hand-over"),
    }),
  ),
  producer: producerAnswer,
});

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
    ...summary,
  };
}

export function answerGroup({ groupId, request, jobs }: GroupJob): z.infer<typeof groupAnswer> {
  const isAll = (expected: EpisodeJob["status"]): boolean => jobs.every(({ status }) => status === expected);
  return {
    id: groupId,
    status: isAll("ended") ? "ended" : isAll("waiting") ? "waiting" : "running",
    task_index: request.taskIndex,
    group_size: request.groupSize,
    samples: jobs.length,
    episodes: jobs.map(answerEpisode),
  };
}

export function answerProducer(job: ProducerJob): z.infer<typeof producerAnswer> {
  const { request, status, leaseLeftMs } = job;
  return {
    id: job.producerId,
    state: status.state,
    training: request.training,
    lease_seconds: request.leaseMs / 1000,
    lease_left_seconds: leaseLeftMs === null ? null : leaseLeftMs / 1000,
    version: status.version,
    weight_version: job.weightVersion,
    split: job.split,
    group_size: request.groupSize,
    samples: request.groupSize,
    batch_groups: request.batchGroups,
    max_staleness: request.production.maxStaleness,
    running_episodes: status.runningEpisodes,
    open_groups: status.openGroups,
    buffered: status.buffered,
    handed_over: status.handedOver,
    batches: job.batches,
    dropped: { ...status.dropped },
  };
}

// Events of an episode as server-sent events: those so far, then new ones, then "ended". A client
// that lost its connection names the last event that it has and resumes after it. Events are shown
// as content, calls and results, without token ids; the record with every token is in the samples.

type EventSource = {
  readonly job: EpisodeJob;
  /** Reads the stored events once the job has forgotten its own. */
  readonly stored: () => Promise<readonly EventView[]>;
  /** Removes secrets from the stream. */
  readonly redact: (text: string) => string;
};

/**
 * Streams the events. `after`: number of events that the client has. Nothing is buffered for a
 * client that does not read.
 */
export function streamEvents({ job, stored, redact }: EventSource, after: number): Response {
  const encoder = new TextEncoder();
  const disconnected = new AbortController();
  let next = after;
  let restored: readonly EventView[] | null = null;
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const send = (type: string, data: unknown): void => {
        next++;
        const text = redact(JSON.stringify(data));
        controller.enqueue(encoder.encode(`id: ${next}\nevent: ${type}\ndata: ${text}\n\n`));
      };
      try {
        for (;;) {
          const events = job.events ?? (restored ??= await stored());
          const event = events[next];
          if (event !== undefined) return send(event.type, event);
          if (job.status === "ended") send("ended", answerEpisode(job));
          // A suspended episode resumes in the next process, where the client requests the rest.
          if (job.status === "ended" || job.isSuspended) return controller.close();
          await job.changed(disconnected.signal);
        }
      } catch (error) {
        if (!disconnected.signal.aborted) controller.error(error);
      }
    },
    cancel: () => disconnected.abort(new Error("The client disconnected.")),
  });
  return new Response(body, {
    headers: { "content-type": "text/event-stream", "cache-control": "no-cache", "x-accel-buffering": "no" },
  });
}
