// What the service offers, once: each operation with its description and its deed. The router and the OpenAPI document are
// both made from this table.

import { streamEvents } from "./event-stream.ts";
import { viewEvent } from "./event-view.ts";
import {
  groupOf,
  infoOf,
  jobOf,
  json,
  keyOf,
  samplesOf,
  type ServiceState,
  statusOf,
  untilEnded,
  waitOf,
} from "./operations.ts";
import { producerRoutes } from "./producer-routes.ts";
import { none, type Route, secured } from "./route.ts";
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
import {
  episodeBody,
  formatQuery,
  groupBody,
  readBody,
  toGroupRequest,
  waitQuery,
  weightsBody,
} from "./wire/requests.ts";

const wait = {
  wait_seconds: { schema: waitQuery, description: "wait so long for the end before answering" },
};
const inFormat = {
  format: { schema: formatQuery, description: "layout of the rows; default: the service's first (see /v1/info)" },
};

export function serviceRoutes(state: ServiceState, document: () => unknown): readonly Route[] {
  const { desk, stage, parts } = state;
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
        return json(state, answerEpisode(job), isNew && job.status !== "ended" ? 202 : 200);
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
        return json(state, answerEpisode(job));
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
      handle: async (call) => json(state, await samplesOf([await jobOf(desk, call)], call, state)),
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
        const forgotten = async () => (await stage.ended(job.place.episodeId))?.episode.events.map(viewEvent) ?? [];
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
      refusals: [401, 404, 409],
      handle: async (call) => {
        const job = await jobOf(desk, call);
        const group = await desk.group(job.place.groupId);
        if (group !== null) await desk.cancel(group, [job]);
        return json(state, answerEpisode(job));
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
        return json(state, answer, isNew && answer.status !== "ended" ? 202 : 200);
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
        return json(state, answerGroup(group));
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
      handle: async (call) => json(state, await samplesOf((await groupOf(desk, call)).jobs, call, state)),
    },
    {
      ...none,
      ...secured,
      method: "post",
      path: "/v1/groups/{id}/cancel",
      id: "cancelGroup",
      summary: "End the episodes of a group; those that have ended stay as they are.",
      answers: { 200: { description: "As it is now.", content: groupAnswer } },
      refusals: [401, 404, 409],
      handle: async (call) => {
        const group = await groupOf(desk, call);
        await desk.cancel(group);
        return json(state, answerGroup(group));
      },
    },
    ...producerRoutes(state),
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
        return json(state, { status: statusOf(state) });
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
        return json(state, { status: statusOf(state) });
      },
    },
    {
      ...none,
      ...secured,
      method: "post",
      path: "/v1/weights",
      id: "reportWeights",
      summary: "Tell the version of the trainer's weights, the producers of its training too.",
      body: weightsBody,
      answers: { 200: { description: "Noted.", content: weightsAnswer } },
      refusals: [400, 401, 413, 415],
      handle: async (call) => {
        const body = readBody(weightsBody, call.body);
        const version = String(body.version);
        await state.producers.report(version, body.training ?? null);
        return json(state, { weight_version: version });
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
      handle: () => json(state, infoOf(state)),
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
      handle: () => json(state, { status: statusOf(state) }),
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
        if (!desk.isClosing) return json(state, { status: statusOf(state) });
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
      handle: () => json(state, document()),
    },
  ];
}
