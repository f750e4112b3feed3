// Operations of the service, defined once: each with its description and its handler. The router
// and the OpenAPI document are both generated from this table; operations on producers are in
// `producer-routes.ts`.

import { z } from "zod";
import { ConfigurationError } from "../core/index.ts";
import { withDeadline } from "../lib/deadline.ts";
import { useAdapter } from "./adapters.ts";
import type { SharedParts } from "./episode-pool.ts";
import { viewEvent } from "./episode-view.ts";
import {
  streamEvents,
  answerEpisode,
  answerGroup,
  episodeAnswer,
  groupAnswer,
  infoAnswer,
  busyAnswer,
  okAnswer,
  samplesAnswer,
  type serviceStatus,
  weightsAnswer,
} from "./responses.ts";
import type { GroupRequests } from "./group-requests.ts";
import type { EpisodeJob, GroupJob } from "./jobs.ts";
import { type Call, defineRoute, type Route } from "./open-api.ts";
import type { Producers } from "./producers.ts";
import {
  episodeBody,
  formatQuery,
  groupBody,
  readBody,
  sizeOf,
  toGroupRequest,
  turnRewardsQuery,
  waitQuery,
  weightsBody,
} from "./requests.ts";
import { ServiceError } from "./service-error.ts";
import type { ExportedEpisode, RowFormat } from "./service-options.ts";

export type ServiceContext = SharedParts & {
  readonly requests: GroupRequests;
  readonly producers: Producers;
  /** Removes secrets from responses. */
  readonly redact: (text: string) => string;
};

/** Episodes that a client requested together, and their group. */
type Requested = { readonly group: GroupJob; readonly jobs: readonly EpisodeJob[] };

/** A kind of request: one episode, or a group of them. */
type Kind = {
  readonly name: "Episode" | "Group";
  readonly starts: string;
  readonly cancels: string;
  readonly body: typeof episodeBody | typeof groupBody;
  readonly answer: typeof episodeAnswer | typeof groupAnswer;
  readonly find: (id: string) => Promise<Requested | null>;
  readonly view: (requested: Requested) => { readonly status: EpisodeJob["status"] };
};

export function serviceRoutes(context: ServiceContext, document: () => unknown): readonly Route[] {
  const { jobs, pool, parts } = context;
  const status = (): Response => json(context, { status: statusOf(context) });
  const findJob = async (id: string): Promise<(Requested & { readonly job: EpisodeJob }) | null> => {
    const job = await jobs.findJob(id);
    const group = job === null ? null : await jobs.find(job.place.groupId);
    return job === null || group === null ? null : { group, job, jobs: [job] };
  };
  return [
    ...requestRoutes(context, {
      name: "Episode",
      starts: "Start an episode of a task.",
      cancels: "Cancel an episode; an ended one is not changed.",
      body: episodeBody,
      answer: episodeAnswer,
      find: findJob,
      view: ({ jobs: [job] }) => answerEpisode(job!),
    }),
    defineRoute("get", "/v1/episodes/{id}/events", {
      id: "streamEpisodeEvents",
      summary: "Stream the events of an episode as server-sent events; Last-Event-ID resumes after that event.",
      answers: { 200: ["Events until the episode has ended.", "text/event-stream"] },
      handle: async (call) => {
        const { job } = (await findJob(call.params["id"] ?? "")) ?? notFound("episode", call);
        const stored = async () => (await pool.ended(job.place.episodeId))?.episode.events.map(viewEvent) ?? [];
        const last = Number(call.headers.get("last-event-id") ?? 0);
        const after = Number.isSafeInteger(last) && last > 0 ? last : 0;
        return streamEvents({ job, stored, redact: context.redact }, after);
      },
    }),
    ...requestRoutes(context, {
      name: "Group",
      starts: "Start a group of episodes of one task, whose rewards are compared.",
      cancels: "Cancel the episodes of a group; ended ones are not changed.",
      body: groupBody,
      answer: groupAnswer,
      find: async (id) => {
        const group = await jobs.find(id);
        return group === null ? null : { group, jobs: group.jobs };
      },
      view: ({ group }) => answerGroup(group),
    }),
    defineRoute("post", "/v1/pause", {
      id: "pause",
      summary: "Hold every episode before its next engine call, while weights are updated.",
      answers: { 200: ["Paused. Engine calls in flight continue.", okAnswer] },
      handle: async () => {
        parts.gate.close();
        await parts.onGate?.(false);
        return status();
      },
    }),
    defineRoute("post", "/v1/continue", {
      id: "continue",
      summary: "Resume the episodes after a pause.",
      answers: { 200: ["Resumed.", okAnswer] },
      handle: async () => {
        parts.gate.open();
        await parts.onGate?.(true);
        return status();
      },
    }),
    defineRoute("post", "/v1/weights", {
      id: "reportWeights",
      summary: "Report the version of the trainer's weights, also to the producers of its training.",
      body: weightsBody,
      answers: { 200: ["Recorded.", weightsAnswer] },
      handle: async (call) => {
        const body = readBody(weightsBody, call.body);
        const version = String(body.version);
        const { mean_kl = null, largest = null } = body.mismatch ?? {};
        const owner = body.training ?? null;
        const isAdapter = (body.adapter ?? null) !== null;
        await useAdapter(context, { version, training: owner, adapter: body.adapter ?? null });
        const servers = await context.producers.report(version, owner, { isAdapter });
        await context.adapters.unload(body.adapter?.unload ?? []);
        if (body.mismatch) parts.onMismatch?.({ version, meanKl: mean_kl, largestDifference: largest });
        const warning = versionWarning(version, servers);
        if (warning !== null) parts.onNotice?.(warning);
        const answer: z.infer<typeof weightsAnswer> = {
          weight_version: version,
          ...(servers.length === 0 ? {} : { servers, warning }),
        };
        return json(context, answer);
      },
    }),
    defineRoute("get", "/v1/info", {
      id: "getInfo",
      summary: "Get the environment, the limits and the load of this service.",
      answers: { 200: [current, infoAnswer] },
      handle: () => json(context, infoOf(context)),
    }),
    ...(
      [
        ["/health", "getHealth"],
        ["/healthz", "getHealthz"],
        ["/ready", "getReadiness"],
        ["/readyz", "getReadyz"],
      ] as const
    ).map(([path, id]) =>
      defineRoute("get", path, {
        id,
        summary: "Check whether requests are accepted.",
        access: null,
        answers: {
          200: ["Requests are accepted.", okAnswer],
          503: ["The service is shutting down, or its disk refuses writes.", busyAnswer],
        },
        handle: () => healthOf(context),
      }),
    ),
    defineRoute("get", "/metrics", {
      id: "getMetrics",
      summary: "Get metrics in the Prometheus format.",
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

/**
 * Warning for a trainer that reports weights that the servers do not have; `null` if there is
 * nothing to warn about.
 */
function versionWarning(version: string, servers: readonly (string | null)[]): string | null {
  const named = servers.filter((one) => one !== null);
  const others = [...new Set(named.filter((one) => one !== version))].map((one) => JSON.stringify(one.slice(0, 100)));
  if (others.length === 0) return null;
  const having = named.filter((one) => one === version).length;
  const weights = `weights ${JSON.stringify(version)}`;
  const state =
    having === 0
      ? `No server has ${weights}: they have ${others.join(", ")}`
      : `Not every server has ${weights}: ${having} of ${named.length} have, others have ${others.join(", ")}`;
  return `${state}; load the weights under this name first, or report the name that the servers use.`;
}

const current = "The current state.";

/** Routes that start, get, fetch the samples of, and cancel one kind of request. */
function requestRoutes(context: ServiceContext, kind: Kind): readonly Route[] {
  const { requests } = context;
  const { name, body, answer, view } = kind;
  const noun = name.toLowerCase();
  const article = name === "Episode" ? "an" : "a";
  const path = `/v1/${noun}s`;
  const find = async (call: Call): Promise<Requested> =>
    (await kind.find(call.params["id"] ?? "")) ?? notFound(noun, call);
  const answerWithRows = answer.extend({
    rows: z
      .array(z.unknown())
      .nullable()
      .optional()
      .describe("if rows are requested: training rows in that format; null: not everything has ended"),
  });
  const withRows = async (requested: Requested, format: NamedFormat | null) => {
    const shown = view(requested);
    if (format === null) return shown;
    return { ...shown, rows: shown.status === "ended" ? (await exported(requested, format, context)).samples : null };
  };
  return [
    defineRoute("post", path, {
      id: `start${name}`,
      summary: kind.starts,
      body,
      takesKey: true,
      answers: {
        200: ["Ended, or already known from an earlier request.", answerWithRows],
        202: ["Started.", answerWithRows],
      },
      errors: [409, 429],
      handle: async (call) => {
        const read = readBody<z.infer<typeof groupBody>>(body, call.body);
        const request = toGroupRequest(read, name === "Group" ? sizeOf(read) : 1);
        const format = formatOf(read.rows ?? null, context);
        const { group, isNew } = await requests.submit(request, submissionOf(call));
        await untilEnded(group.jobs, read.wait_seconds ?? 0, { call, context });
        const shown = await withRows({ group, jobs: group.jobs }, format);
        return json(context, shown, isNew && shown.status !== "ended" ? 202 : 200);
      },
    }),
    defineRoute("get", `${path}/{id}`, {
      id: `get${name}`,
      summary: `Get ${article} ${noun}.`,
      query: {
        wait_seconds: { schema: waitQuery, description: "seconds to wait for the end before responding" },
        rows: {
          schema: formatQuery,
          description:
            "format of the training rows to include in the answer once everything has ended; absent: no rows",
        },
      },
      answers: { 200: [current, answerWithRows] },
      handle: async (call) => {
        const requested = await find(call);
        const format = formatOf(call.query.get("rows"), context);
        const seconds = readBody(waitQuery, call.query.get("wait_seconds") ?? undefined);
        await untilEnded(requested.jobs, seconds, { call, context });
        return json(context, await withRows(requested, format));
      },
    }),
    defineRoute("get", `${path}/{id}/samples`, {
      id: `get${name}Samples`,
      summary: `Get the training rows of an ended ${noun}.`,
      query: {
        format: { schema: formatQuery, description: "format of the rows; default: the service's first (see /v1/info)" },
        turn_rewards: {
          schema: turnRewardsQuery,
          description: "rewards of turns: keep (default; formats without a field for them refuse), or ignore",
        },
      },
      answers: { 200: ["All training rows.", samplesAnswer] },
      errors: [409],
      handle: async (call) => json(context, await samplesOf(await find(call), call, context)),
    }),
    defineRoute("post", `${path}/{id}/cancel`, {
      id: `cancel${name}`,
      summary: kind.cancels,
      answers: { 200: [current, answer] },
      errors: [409],
      handle: async (call) => {
        const requested = await find(call);
        await requests.cancel(requested.group, requested.jobs);
        return json(context, view(requested));
      },
    }),
  ];
}

export function json({ redact }: ServiceContext, value: unknown, status = 200): Response {
  return new Response(redact(JSON.stringify(value)), { status, headers: { "content-type": "application/json" } });
}

export function submissionOf({ headers, body }: Call): { readonly key: string | null; readonly body: unknown } {
  const key = headers.get("idempotency-key");
  if (key === null || (key.length >= 1 && key.length <= 255)) return { key, body };
  throw new ServiceError("bad-request", "Cannot read the request: Idempotency-Key must have 1 to 255 characters.");
}

export function notFound(noun: string, { params }: Call): never {
  throw new ServiceError("not-found", `Cannot find the ${noun} ${JSON.stringify(params["id"])}: it does not exist.`);
}

/** Time that a request may wait, in milliseconds. */
export function boundedWait(seconds: number, { limits }: ServiceContext): number {
  return Math.ceil(Math.min(seconds * 1000, limits.maxWaitMs));
}

/**
 * Waits until all jobs have ended, the time limit has passed, the client disconnects or the service
 * closes.
 */
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
  // `AbortSignal.any` with a timeout would not work: Node may collect it, and then it never aborts.
  const waiting = withDeadline(untilAll, { timeoutMs, signal: call.signal }).catch(() => undefined);
  await context.guard.recorded(waiting);
  // Jobs that were suspended because of the disk have not ended.
  if (!context.pool.isClosing && jobs.some(({ isSuspended }) => isSuspended)) await context.guard.check();
}

function statusOf({ pool, parts }: ServiceContext): z.infer<typeof serviceStatus> {
  if (pool.isClosing) return "draining";
  if ((parts.disk?.fault ?? null) !== null) return "degraded";
  return parts.gate.isOpen ? "open" : "paused";
}

/** Health of the service: 503 with the reason while requests are not accepted. */
async function healthOf(context: ServiceContext): Promise<Response> {
  const fault = await context.guard.fault();
  const status = statusOf(context);
  if (status !== "draining" && fault === null) return json(context, { status });
  const reason = status === "draining" ? "The service is about to end." : (fault?.message ?? "");
  const answer = json(context, { status, reason }, 503);
  answer.headers.set("retry-after", "5");
  return answer;
}

function infoOf(context: ServiceContext): z.infer<typeof infoAnswer> {
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

type NamedFormat = { readonly name: string; readonly write: RowFormat; readonly turnRewards: "keep" | "ignore" };

/** The requested format; `null` for none. Throws a `ServiceError`. */
function formatOf(
  name: string | null,
  { parts }: ServiceContext,
  turnRewards: NamedFormat["turnRewards"] = "keep",
): NamedFormat | null {
  if (name === null) return null;
  const write = parts.formats.get(name);
  if (write !== undefined) return { name, write, turnRewards };
  const names = [...parts.formats.keys()].join(", ");
  throw new ServiceError(
    "bad-request",
    `Cannot write rows as ${JSON.stringify(name.slice(0, 64))}: the formats are ${names}.`,
  );
}

async function samplesOf(
  requested: Requested,
  { query }: Call,
  context: ServiceContext,
): Promise<z.infer<typeof samplesAnswer>> {
  const turnRewards = readBody(turnRewardsQuery, query.get("turn_rewards") ?? undefined) ?? "keep";
  const [first = ""] = context.parts.formats.keys();
  const format = formatOf(query.get("format") ?? first, context, turnRewards)!;
  const open = requested.jobs.find(({ status }) => status !== "ended");
  if (open !== undefined) {
    throw new ServiceError(
      "not-ended",
      `Cannot return samples: episode "${open.place.episodeId}" is ${open.status}; wait for it with wait_seconds.`,
    );
  }
  return exported(requested, format, context);
}

/** Rows of the episodes that have ended. */
async function exported(
  { group, jobs }: Requested,
  { name, write, turnRewards }: NamedFormat,
  { pool }: ServiceContext,
): Promise<z.infer<typeof samplesAnswer>> {
  const ended: ExportedEpisode[] = [];
  for (const { place } of jobs) {
    const episode = await pool.ended(place.episodeId);
    if (episode !== null) ended.push(episode);
  }
  return {
    format: name,
    episodes: jobs.map(answerEpisode),
    samples: rowsOf(() => write(ended, group.groupIndex, { turnRewards })),
    dropped_tokens: ended.flatMap(({ episode, result }) =>
      result.dropped.map(({ turn, count, reason }) => ({ episode_id: episode.id, turn, count, reason })),
    ),
  };
}

/** Errors of a format are for the client to correct. */
function rowsOf(make: () => readonly unknown[]): unknown[] {
  try {
    return [...make()];
  } catch (error) {
    if (error instanceof ConfigurationError) throw new ServiceError("bad-request", error.message);
    throw error;
  }
}
