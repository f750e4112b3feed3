// What the service offers, once: each operation with its description and its deed. The router and the OpenAPI document are
// both made from this table.

import { withDeadline } from "../lib/deadline.ts";
import type { EpisodeJob } from "./episode-job.ts";
import { streamEvents } from "./event-stream.ts";
import { viewEvent } from "./event-view.ts";
import type { GroupJob } from "./group-job.ts";
import type { RolloutDesk } from "./rollout-desk.ts";
import type { EndedEpisode, ServiceLimits, ServiceParts } from "./service-parts.ts";
import { ServiceRefusal } from "./service-refusal.ts";
import {
  answerEpisode,
  answerGroup,
  episodeAnswer,
  groupAnswer,
  infoAnswer,
  okAnswer,
  samplesAnswer,
  weightsAnswer,
} from "./wire/answers.ts";
import type { Operation } from "./wire/open-api.ts";
import {
  episodeBody,
  formatQuery,
  groupBody,
  readBody,
  toGroupRequest,
  waitQuery,
  weightsBody,
} from "./wire/requests.ts";

/** What an operation is called with. */
export type Call = {
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  readonly headers: Headers;
  /** Parsed JSON; `undefined` where the operation takes no body. */
  readonly body: unknown;
  /** Aborted when the client leaves. */
  readonly signal: AbortSignal;
};

export type Route = Operation & { readonly handle: (call: Call) => Response | Promise<Response> };

export type ServiceState = {
  readonly desk: RolloutDesk;
  readonly parts: ServiceParts;
  readonly limits: ServiceLimits;
  /** Takes secrets out of whatever is answered. */
  readonly redact: (text: string) => string;
  /** What the trainer reported last. */
  weightVersion: string | null;
};

const none = { query: {}, body: null, takesKey: false } as const;
const wait = {
  wait_seconds: { schema: waitQuery, description: "wait so long for the end before answering" },
};
const inFormat = {
  format: { schema: formatQuery, description: "layout of the rows; default: the service's first (see /v1/info)" },
};
const secured = { access: "token" } as const;

export function serviceRoutes(state: ServiceState, document: () => unknown): readonly Route[] {
  const { desk, parts } = state;
  const json = (value: unknown, status = 200): Response =>
    new Response(state.redact(JSON.stringify(value)), { status, headers: { "content-type": "application/json" } });
  return [
    {
      ...none,
      ...secured,
      method: "post",
      path: "/v1/episodes",
      id: "startEpisode",
      summary: "Start an episode of a task.",
      body: episodeBody,
      takesKey: true,
      answers: {
        200: { description: "It has ended, or was known.", content: episodeAnswer },
        202: { description: "It plays.", content: episodeAnswer },
      },
      refusals: [400, 401, 409, 413, 415, 429, 503],
      handle: async (call) => {
        const body = readBody(episodeBody, call.body);
        const { group, isNew } = await desk.submit(toGroupRequest(body), { key: keyOf(call.headers), body: call.body });
        const [job] = group.jobs;
        if (job === undefined) throw new ServiceRefusal("internal", "The episode is gone.");
        await untilEnded([job], { seconds: body.wait_seconds ?? 0, call, state });
        return json(answerEpisode(job), isNew && job.status !== "ended" ? 202 : 200);
      },
    },
    {
      ...none,
      ...secured,
      method: "get",
      path: "/v1/episodes/{id}",
      id: "getEpisode",
      summary: "What is known of an episode.",
      query: wait,
      answers: { 200: { description: "As it is now.", content: episodeAnswer } },
      refusals: [400, 401, 404],
      handle: async (call) => {
        const job = await jobOf(desk, call);
        await untilEnded([job], { seconds: waitOf(call), call, state });
        return json(answerEpisode(job));
      },
    },
    {
      ...none,
      ...secured,
      method: "get",
      path: "/v1/episodes/{id}/samples",
      id: "getEpisodeSamples",
      summary: "The training rows of an episode that has ended.",
      query: inFormat,
      answers: { 200: { description: "All its rows.", content: samplesAnswer } },
      refusals: [400, 401, 404, 409],
      handle: async (call) => json(await samplesOf([await jobOf(desk, call)], call, state)),
    },
    {
      ...none,
      ...secured,
      method: "get",
      path: "/v1/episodes/{id}/events",
      id: "streamEpisodeEvents",
      summary: "What happens in an episode, as server-sent events; Last-Event-ID goes on behind one.",
      answers: { 200: { description: "Events until the episode has ended.", content: "text/event-stream" } },
      refusals: [401, 404],
      handle: async (call) => {
        const job = await jobOf(desk, call);
        const forgotten = async () => (await desk.ended(job.place.episodeId))?.episode.events.map(viewEvent) ?? [];
        const last = Number(call.headers.get("last-event-id") ?? 0);
        const after = Number.isSafeInteger(last) && last > 0 ? last : 0;
        return streamEvents({ job, forgotten, redact: state.redact }, after);
      },
    },
    {
      ...none,
      ...secured,
      method: "post",
      path: "/v1/episodes/{id}/cancel",
      id: "cancelEpisode",
      summary: "End an episode; one that has ended stays as it is.",
      answers: { 200: { description: "As it is now.", content: episodeAnswer } },
      refusals: [401, 404],
      handle: async (call) => {
        const job = await jobOf(desk, call);
        const group = await desk.group(job.place.groupId);
        if (group !== null) await desk.cancel(group, [job]);
        return json(answerEpisode(job));
      },
    },
    {
      ...none,
      ...secured,
      method: "post",
      path: "/v1/groups",
      id: "startGroup",
      summary: "Start several episodes of one task, whose rewards are compared.",
      body: groupBody,
      takesKey: true,
      answers: {
        200: { description: "It has ended, or was known.", content: groupAnswer },
        202: { description: "It plays.", content: groupAnswer },
      },
      refusals: [400, 401, 409, 413, 415, 429, 503],
      handle: async (call) => {
        const body = readBody(groupBody, call.body);
        const { group, isNew } = await desk.submit(toGroupRequest(body), { key: keyOf(call.headers), body: call.body });
        await untilEnded(group.jobs, { seconds: body.wait_seconds ?? 0, call, state });
        const answer = answerGroup(group);
        return json(answer, isNew && answer.status !== "ended" ? 202 : 200);
      },
    },
    {
      ...none,
      ...secured,
      method: "get",
      path: "/v1/groups/{id}",
      id: "getGroup",
      summary: "What is known of a group.",
      query: wait,
      answers: { 200: { description: "As it is now.", content: groupAnswer } },
      refusals: [400, 401, 404],
      handle: async (call) => {
        const group = await groupOf(desk, call);
        await untilEnded(group.jobs, { seconds: waitOf(call), call, state });
        return json(answerGroup(group));
      },
    },
    {
      ...none,
      ...secured,
      method: "get",
      path: "/v1/groups/{id}/samples",
      id: "getGroupSamples",
      summary: "The training rows of a group that has ended.",
      query: inFormat,
      answers: { 200: { description: "All its rows.", content: samplesAnswer } },
      refusals: [400, 401, 404, 409],
      handle: async (call) => json(await samplesOf((await groupOf(desk, call)).jobs, call, state)),
    },
    {
      ...none,
      ...secured,
      method: "post",
      path: "/v1/groups/{id}/cancel",
      id: "cancelGroup",
      summary: "End the episodes of a group; those that have ended stay as they are.",
      answers: { 200: { description: "As it is now.", content: groupAnswer } },
      refusals: [401, 404],
      handle: async (call) => {
        const group = await groupOf(desk, call);
        await desk.cancel(group);
        return json(answerGroup(group));
      },
    },
    {
      ...none,
      ...secured,
      method: "post",
      path: "/v1/pause",
      id: "pause",
      summary: "Hold every episode before its next engine call, while weights change.",
      answers: { 200: { description: "Held. Engine calls under way go on.", content: okAnswer } },
      refusals: [401],
      handle: () => {
        parts.gate.close();
        return json({ status: statusOf(state) });
      },
    },
    {
      ...none,
      ...secured,
      method: "post",
      path: "/v1/continue",
      id: "continue",
      summary: "Let the episodes go on.",
      answers: { 200: { description: "They go on.", content: okAnswer } },
      refusals: [401],
      handle: () => {
        parts.gate.open();
        return json({ status: statusOf(state) });
      },
    },
    {
      ...none,
      ...secured,
      method: "post",
      path: "/v1/weights",
      id: "reportWeights",
      summary: "Tell the version of the trainer's weights.",
      body: weightsBody,
      answers: { 200: { description: "Noted.", content: weightsAnswer } },
      refusals: [400, 401, 413, 415],
      handle: (call) => {
        const version = String(readBody(weightsBody, call.body).version);
        state.weightVersion = version;
        parts.onWeightVersion?.(version);
        return json({ weight_version: version });
      },
    },
    {
      ...none,
      ...secured,
      method: "get",
      path: "/v1/info",
      id: "getInfo",
      summary: "What this service plays, and how busy it is.",
      answers: { 200: { description: "As it is now.", content: infoAnswer } },
      refusals: [401],
      handle: () => json(infoOf(state)),
    },
    {
      ...none,
      method: "get",
      path: "/health",
      id: "getHealth",
      summary: "Whether the process answers.",
      access: null,
      answers: { 200: { description: "It does.", content: okAnswer } },
      refusals: [],
      handle: () => json({ status: statusOf(state) }),
    },
    {
      ...none,
      method: "get",
      path: "/ready",
      id: "getReadiness",
      summary: "Whether requests are taken.",
      access: null,
      answers: { 200: { description: "They are.", content: okAnswer } },
      refusals: [503],
      handle: () => {
        if (!desk.isClosing) return json({ status: statusOf(state) });
        throw new ServiceRefusal("closing", "The service is closing; ask again when it is back.", { retryAfter: 5 });
      },
    },
    {
      ...none,
      ...secured,
      method: "get",
      path: "/metrics",
      id: "getMetrics",
      summary: "Metrics in Prometheus' format.",
      answers: { 200: { description: "All metrics.", content: "text/plain" } },
      refusals: [401, 404],
      handle: async () => {
        const { metrics } = parts;
        if (metrics === null) throw new ServiceRefusal("not-found", "This service has no metrics.");
        return new Response(await metrics.page(), { headers: { "content-type": metrics.contentType } });
      },
    },
    {
      ...none,
      method: "get",
      path: "/openapi.json",
      id: "getDocument",
      summary: "This document.",
      access: null,
      answers: { 200: { description: "The document.", content: "application/json" } },
      refusals: [],
      handle: () => json(document()),
    },
  ];
}

function statusOf({ desk, parts }: ServiceState): "open" | "paused" | "closing" {
  if (desk.isClosing) return "closing";
  return parts.gate.isOpen ? "open" : "paused";
}

function infoOf(state: ServiceState): unknown {
  const { desk, parts, limits } = state;
  const { environment, defaultSplit, formats } = parts;
  const { running, waiting } = desk.counts;
  return {
    name: "trainable-agents",
    environment: environment.name,
    splits: Object.fromEntries(environment.splits.map((split) => [split, environment.taskset(split).size])),
    default_split: defaultSplit,
    formats: [...formats.keys()],
    status: statusOf(state),
    weight_version: state.weightVersion,
    running,
    waiting,
    limits: {
      concurrency: limits.concurrency,
      max_waiting: limits.maxWaiting,
      max_body_bytes: limits.maxBodyBytes,
      max_wait_seconds: limits.maxWaitMs / 1000,
    },
  };
}

function keyOf(headers: Headers): string | null {
  const key = headers.get("idempotency-key");
  if (key === null) return null;
  if (key.length >= 1 && key.length <= 255) return key;
  throw new ServiceRefusal("bad-request", "Cannot read the request: Idempotency-Key has 1 to 255 characters.");
}

function waitOf(call: Call): number {
  return readBody(waitQuery, call.query.get("wait_seconds") ?? undefined);
}

async function jobOf(desk: RolloutDesk, { params }: Call): Promise<EpisodeJob> {
  const job = await desk.job(params["id"] ?? "");
  if (job !== null) return job;
  throw new ServiceRefusal(
    "not-found",
    `Cannot find the episode ${JSON.stringify(params["id"])}: it was never asked for.`,
  );
}

async function groupOf(desk: RolloutDesk, { params }: Call): Promise<GroupJob> {
  const group = await desk.group(params["id"] ?? "");
  if (group !== null) return group;
  throw new ServiceRefusal(
    "not-found",
    `Cannot find the group ${JSON.stringify(params["id"])}: it was never asked for.`,
  );
}

/** Waits until all have ended, the time is up, the client leaves or the service closes. */
async function untilEnded(
  jobs: readonly EpisodeJob[],
  { seconds, call, state }: { readonly seconds: number; readonly call: Call; readonly state: ServiceState },
): Promise<void> {
  const ms = Math.ceil(Math.min(seconds * 1000, state.limits.maxWaitMs));
  if (ms <= 0) return;
  const untilAll = async (signal: AbortSignal): Promise<void> => {
    for (const job of jobs) while (job.status !== "ended" && !job.isCutOff) await job.changed(signal);
  };
  // Not `AbortSignal.any` with a timeout: Node may collect it, and then it never aborts.
  await withDeadline(untilAll, { timeoutMs: ms, signal: call.signal }).catch(() => undefined);
}

async function samplesOf(jobs: readonly EpisodeJob[], call: Call, { desk, parts }: ServiceState): Promise<unknown> {
  const names = [...parts.formats.keys()];
  const name = call.query.get("format") ?? names[0] ?? "";
  const format = parts.formats.get(name);
  if (format === undefined) {
    throw new ServiceRefusal(
      "bad-request",
      `Cannot write rows as ${JSON.stringify(name.slice(0, 64))}: there is ${names.join(", ")}.`,
    );
  }
  const open = jobs.find(({ status }) => status !== "ended");
  if (open !== undefined) {
    throw new ServiceRefusal(
      "not-ended",
      `Cannot give samples: episode "${open.place.episodeId}" is ${open.status}; wait for it with wait_seconds.`,
    );
  }
  const ended: EndedEpisode[] = [];
  for (const { place } of jobs) {
    const played = await desk.ended(place.episodeId);
    if (played !== null) ended.push(played);
  }
  const groupIndex = (await desk.group(jobs[0]?.place.groupId ?? ""))?.groupIndex ?? 0;
  return {
    format: name,
    episodes: jobs.map(answerEpisode),
    samples: format(ended, groupIndex),
    dropped_tokens: ended.flatMap(({ episode, result }) =>
      result.dropped.map(({ turn, count, reason }) => ({ episode_id: episode.id, turn, count, reason })),
    ),
  };
}
