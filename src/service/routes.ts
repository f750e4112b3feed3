// The operations of the service, once: each with its description and its handler. The router and the OpenAPI document are both
// made from this table; operations on producers are in `producer-routes.ts`.

import { withDeadline } from "../lib/deadline.ts";
import type { EpisodePool } from "./episode-pool.ts";
import { streamEvents } from "./event-stream.ts";
import type { GroupRequests } from "./group-requests.ts";
import { type EpisodeJob, type GroupJob, viewEvent } from "./jobs.ts";
import { type Call, defineRoute, type Route } from "./open-api.ts";
import type { Producers } from "./producers.ts";
import {
  episodeBody,
  formatQuery,
  groupBody,
  readBody,
  sizeOf,
  toGroupRequest,
  waitQuery,
  weightsBody,
} from "./requests.ts";
import {
  answerEpisode,
  answerGroup,
  episodeAnswer,
  groupAnswer,
  infoAnswer,
  okAnswer,
  samplesAnswer,
  weightsAnswer,
} from "./responses.ts";
import { ServiceError, throwClosing } from "./service-error.ts";
import type { EndedEpisode, ServiceLimits, ServiceParts } from "./service-options.ts";

export type ServiceContext = {
  readonly requests: GroupRequests;
  readonly producers: Producers;
  readonly pool: EpisodePool;
  readonly parts: ServiceParts;
  readonly limits: ServiceLimits;
  /** Takes secrets out of responses. */
  readonly redact: (text: string) => string;
};

const wait = { wait_seconds: { schema: waitQuery, description: "seconds to wait for the end before responding" } };
const inFormat = {
  format: { schema: formatQuery, description: "layout of the rows; default: the service's first (see /v1/info)" },
};
const current = "The current state.";

export function serviceRoutes(context: ServiceContext, document: () => unknown): readonly Route[] {
  const { requests, pool, parts } = context;
  return [
    defineRoute("post", "/v1/episodes", {
      id: "startEpisode",
      summary: "Start an episode of a task.",
      body: episodeBody,
      takesKey: true,
      answers: { 200: ["Ended, or known from an earlier request.", episodeAnswer], 202: ["Started.", episodeAnswer] },
      errors: [409, 429, 503],
      handle: async (call) => {
        const body = readBody(episodeBody, call.body);
        const { group, isNew } = await requests.submit(toGroupRequest(body), submissionOf(call));
        const [job] = group.jobs;
        if (job === undefined) throw new ServiceError("internal", "The episode does not exist any more.");
        await untilEnded([job], body.wait_seconds ?? 0, { call, context });
        return json(context, answerEpisode(job), isNew && job.status !== "ended" ? 202 : 200);
      },
    }),
    defineRoute("get", "/v1/episodes/{id}", {
      id: "getEpisode",
      summary: "Get an episode.",
      query: wait,
      answers: { 200: [current, episodeAnswer] },
      handle: async (call) => {
        const job = await findJob(context, call);
        await untilEnded([job], waitOf(call), { call, context });
        return json(context, answerEpisode(job));
      },
    }),
    defineRoute("get", "/v1/episodes/{id}/samples", {
      id: "getEpisodeSamples",
      summary: "Get the training rows of an ended episode.",
      query: inFormat,
      answers: { 200: ["All its rows.", samplesAnswer] },
      errors: [409],
      handle: async (call) => json(context, await samplesOf([await findJob(context, call)], call, context)),
    }),
    defineRoute("get", "/v1/episodes/{id}/events", {
      id: "streamEpisodeEvents",
      summary: "Stream the events of an episode as server-sent events; Last-Event-ID resumes after that event.",
      answers: { 200: ["Events until the episode has ended.", "text/event-stream"] },
      handle: async (call) => {
        const job = await findJob(context, call);
        const stored = async () => (await pool.ended(job.place.episodeId))?.episode.events.map(viewEvent) ?? [];
        const last = Number(call.headers.get("last-event-id") ?? 0);
        const after = Number.isSafeInteger(last) && last > 0 ? last : 0;
        return streamEvents({ job, stored, redact: context.redact }, after);
      },
    }),
    defineRoute("post", "/v1/episodes/{id}/cancel", {
      id: "cancelEpisode",
      summary: "Cancel an episode; an ended one stays as it is.",
      answers: { 200: [current, episodeAnswer] },
      errors: [409],
      handle: async (call) => {
        const job = await findJob(context, call);
        const group = await requests.group(job.place.groupId);
        if (group !== null) await requests.cancel(group, [job]);
        return json(context, answerEpisode(job));
      },
    }),
    defineRoute("post", "/v1/groups", {
      id: "startGroup",
      summary: "Start several episodes of one task, whose rewards are compared.",
      body: groupBody,
      takesKey: true,
      answers: { 200: ["Ended, or known from an earlier request.", groupAnswer], 202: ["Started.", groupAnswer] },
      errors: [409, 429, 503],
      handle: async (call) => {
        const body = readBody(groupBody, call.body);
        const { group, isNew } = await requests.submit(toGroupRequest(body, sizeOf(body)), submissionOf(call));
        await untilEnded(group.jobs, body.wait_seconds ?? 0, { call, context });
        const answer = answerGroup(group);
        return json(context, answer, isNew && answer.status !== "ended" ? 202 : 200);
      },
    }),
    defineRoute("get", "/v1/groups/{id}", {
      id: "getGroup",
      summary: "Get a group.",
      query: wait,
      answers: { 200: [current, groupAnswer] },
      handle: async (call) => {
        const group = await findGroup(context, call);
        await untilEnded(group.jobs, waitOf(call), { call, context });
        return json(context, answerGroup(group));
      },
    }),
    defineRoute("get", "/v1/groups/{id}/samples", {
      id: "getGroupSamples",
      summary: "Get the training rows of an ended group.",
      query: inFormat,
      answers: { 200: ["All its rows.", samplesAnswer] },
      errors: [409],
      handle: async (call) => json(context, await samplesOf((await findGroup(context, call)).jobs, call, context)),
    }),
    defineRoute("post", "/v1/groups/{id}/cancel", {
      id: "cancelGroup",
      summary: "Cancel the episodes of a group; ended ones stay as they are.",
      answers: { 200: [current, groupAnswer] },
      errors: [409],
      handle: async (call) => {
        const group = await findGroup(context, call);
        await requests.cancel(group);
        return json(context, answerGroup(group));
      },
    }),
    defineRoute("post", "/v1/pause", {
      id: "pause",
      summary: "Hold every episode before its next engine call, while weights change.",
      answers: { 200: ["Paused. Engine calls in flight continue.", okAnswer] },
      handle: () => {
        parts.gate.close();
        return json(context, { status: statusOf(context) });
      },
    }),
    defineRoute("post", "/v1/continue", {
      id: "continue",
      summary: "Resume the episodes after a pause.",
      answers: { 200: ["Resumed.", okAnswer] },
      handle: () => {
        parts.gate.open();
        return json(context, { status: statusOf(context) });
      },
    }),
    defineRoute("post", "/v1/weights", {
      id: "reportWeights",
      summary: "Report the version of the trainer's weights, to the producers of its training as well.",
      body: weightsBody,
      answers: { 200: ["Recorded.", weightsAnswer] },
      handle: async (call) => {
        const body = readBody(weightsBody, call.body);
        const version = String(body.version);
        await context.producers.report(version, body.training ?? null);
        return json(context, { weight_version: version });
      },
    }),
    defineRoute("get", "/v1/info", {
      id: "getInfo",
      summary: "Get the environment, the limits and the load of this service.",
      answers: { 200: [current, infoAnswer] },
      handle: () => json(context, infoOf(context)),
    }),
    defineRoute("get", "/health", {
      id: "getHealth",
      summary: "Check whether the process responds.",
      access: null,
      answers: { 200: ["It responds.", okAnswer] },
      handle: () => json(context, { status: statusOf(context) }),
    }),
    defineRoute("get", "/ready", {
      id: "getReadiness",
      summary: "Check whether requests are accepted.",
      access: null,
      answers: { 200: ["Requests are accepted.", okAnswer] },
      errors: [503],
      handle: () => (requests.isClosing ? throwClosing() : json(context, { status: statusOf(context) })),
    }),
    defineRoute("get", "/metrics", {
      id: "getMetrics",
      summary: "Get metrics in Prometheus' format.",
      answers: { 200: ["All metrics.", "text/plain"] },
      errors: [404],
      handle: async () => {
        const { metrics } = parts;
        if (metrics === null) throw new ServiceError("not-found", "This service has no metrics.");
        return new Response(await metrics.page(), { headers: { "content-type": metrics.contentType } });
      },
    }),
    defineRoute("get", "/openapi.json", {
      id: "getDocument",
      summary: "Get this document.",
      access: null,
      answers: { 200: ["The document.", "application/json"] },
      handle: () => json(context, document()),
    }),
  ];
}

export function json({ redact }: ServiceContext, value: unknown, status = 200): Response {
  return new Response(redact(JSON.stringify(value)), { status, headers: { "content-type": "application/json" } });
}

export function submissionOf({ headers, body }: Call): { readonly key: string | null; readonly body: unknown } {
  const key = headers.get("idempotency-key");
  if (key === null || (key.length >= 1 && key.length <= 255)) return { key, body };
  throw new ServiceError("bad-request", "Cannot read the request: Idempotency-Key has 1 to 255 characters.");
}

export function notFound(what: string, { params }: Call): never {
  throw new ServiceError(
    "not-found",
    `Cannot find the ${what} ${JSON.stringify(params["id"])}: it was never requested.`,
  );
}

async function findJob({ requests }: ServiceContext, call: Call): Promise<EpisodeJob> {
  return (await requests.job(call.params["id"] ?? "")) ?? notFound("episode", call);
}

async function findGroup({ requests }: ServiceContext, call: Call): Promise<GroupJob> {
  return (await requests.group(call.params["id"] ?? "")) ?? notFound("group", call);
}

function waitOf(call: Call): number {
  return readBody(waitQuery, call.query.get("wait_seconds") ?? undefined);
}

/** Milliseconds that a request may wait. */
export function boundedWait(seconds: number, { limits }: ServiceContext): number {
  return Math.ceil(Math.min(seconds * 1000, limits.maxWaitMs));
}

/** Waits until all have ended, the time is up, the client disconnects or the service closes. */
async function untilEnded(
  jobs: readonly EpisodeJob[],
  seconds: number,
  { call, context }: { readonly call: Call; readonly context: ServiceContext },
): Promise<void> {
  const timeoutMs = boundedWait(seconds, context);
  if (timeoutMs <= 0) return;
  const untilAll = async (signal: AbortSignal): Promise<void> => {
    for (const job of jobs) while (job.status !== "ended" && !job.isSuspended) await job.changed(signal);
  };
  // Not `AbortSignal.any` with a timeout: Node may collect it, and then it never aborts.
  await withDeadline(untilAll, { timeoutMs, signal: call.signal }).catch(() => undefined);
}

function statusOf({ requests, parts }: ServiceContext): "open" | "paused" | "closing" {
  if (requests.isClosing) return "closing";
  return parts.gate.isOpen ? "open" : "paused";
}

function infoOf(context: ServiceContext): unknown {
  const { pool, parts, limits, producers } = context;
  const { environment, defaultSplit, formats } = parts;
  return {
    name: "trainable-agents",
    environment: environment.name,
    splits: Object.fromEntries(environment.splits.map((split) => [split, environment.taskset(split).size])),
    default_split: defaultSplit,
    formats: [...formats.keys()],
    status: statusOf(context),
    weight_version: producers.weightVersion,
    running: pool.running,
    waiting: pool.waiting,
    limits: {
      concurrency: limits.concurrency,
      max_waiting: limits.maxWaiting,
      max_body_bytes: limits.maxBodyBytes,
      max_wait_seconds: limits.maxWaitMs / 1000,
    },
  };
}

async function samplesOf(
  jobs: readonly EpisodeJob[],
  call: Call,
  { requests, pool, parts }: ServiceContext,
): Promise<unknown> {
  const names = [...parts.formats.keys()];
  const name = call.query.get("format") ?? names[0] ?? "";
  const format = parts.formats.get(name);
  if (format === undefined) {
    throw new ServiceError(
      "bad-request",
      `Cannot write rows as ${JSON.stringify(name.slice(0, 64))}: the formats are ${names.join(", ")}.`,
    );
  }
  const open = jobs.find(({ status }) => status !== "ended");
  if (open !== undefined) {
    throw new ServiceError(
      "not-ended",
      `Cannot give samples: episode "${open.place.episodeId}" is ${open.status}; wait for it with wait_seconds.`,
    );
  }
  const ended: EndedEpisode[] = [];
  for (const { place } of jobs) {
    const episode = await pool.ended(place.episodeId);
    if (episode !== null) ended.push(episode);
  }
  const groupIndex = (await requests.group(jobs[0]?.place.groupId ?? ""))?.groupIndex ?? 0;
  return {
    format: name,
    episodes: jobs.map(answerEpisode),
    samples: format(ended, groupIndex),
    dropped_tokens: ended.flatMap(({ episode, result }) =>
      result.dropped.map(({ turn, count, reason }) => ({ episode_id: episode.id, turn, count, reason })),
    ),
  };
}
