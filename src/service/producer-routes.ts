// The operations on producers: groups without end for a trainer that trains while they are played.

import { json, keyOf, producerOf, type ServiceState } from "./operations.ts";
import type { SteerAction } from "./request-log.ts";
import { none, type Route, secured } from "./route.ts";
import { ServiceRefusal } from "./service-refusal.ts";
import { answerBatch, answerProducer, batchAnswer, producerAnswer } from "./wire/producer-answers.ts";
import { batchBody, producerBody, readNumber, toProducerRequest } from "./wire/producer-requests.ts";
import { readBody } from "./wire/requests.ts";

const actions: Readonly<Record<SteerAction, { readonly summary: string; readonly answer: string }>> = {
  pause: { summary: "Start no further episode; those under way go on.", answer: "Paused." },
  continue: { summary: "Let a paused producer go on.", answer: "It goes on." },
  drain: { summary: "Begin no further group; those that are open are played to their end.", answer: "It ends." },
  cancel: { summary: "Stop for good: nothing more is handed over.", answer: "It is over." },
};

export function producerRoutes(state: ServiceState): readonly Route[] {
  const { desk, producers, limits } = state;
  return [
    {
      ...none,
      ...secured,
      method: "post",
      path: "/v1/producers",
      id: "startProducer",
      summary: "Play groups without end, for a trainer that takes batches of them.",
      body: producerBody,
      takesKey: true,
      answers: {
        200: { description: "It was known.", content: producerAnswer },
        201: { description: "It plays.", content: producerAnswer },
      },
      refusals: [400, 401, 409, 413, 415, 429, 503],
      handle: async (call) => {
        const request = toProducerRequest(readBody(producerBody, call.body));
        const { job, isNew } = await producers.submit(request, { key: keyOf(call.headers), body: call.body });
        return json(state, answerProducer(job), isNew ? 201 : 200);
      },
    },
    {
      ...none,
      ...secured,
      method: "get",
      path: "/v1/producers/{id}",
      id: "getProducer",
      summary: "What is known of a producer.",
      answers: { 200: { description: "As it is now.", content: producerAnswer } },
      refusals: [401, 404],
      handle: async (call) => json(state, answerProducer(await producerOf(state, call))),
    },
    {
      ...none,
      ...secured,
      method: "post",
      path: "/v1/producers/{id}/batches/{number}",
      id: "takeBatch",
      summary: "Take the next batch, by its number from 0; an earlier one is the same again.",
      body: batchBody,
      answers: {
        200: { description: "The batch.", content: batchAnswer },
        202: { description: "It is not there yet.", content: batchAnswer },
      },
      refusals: [400, 401, 404, 409, 413, 415, 500, 503],
      handle: async (call) => {
        const { groups, wait_seconds: seconds } = readBody(batchBody, call.body);
        const job = await producerOf(state, call);
        await producers.renew(job);
        const number = readNumber(call.params["number"]);
        const waitMs = Math.ceil(Math.min((seconds ?? 0) * 1000, limits.maxWaitMs));
        const outcome = await job.batch(number, { groups: groups ?? null, waitMs, signal: call.signal });
        const found = [];
        for (const { groupId, staleness } of outcome.groups) {
          const group = await desk.group(groupId);
          if (group === null) throw new ServiceRefusal("internal", `Group "${groupId}" is gone.`);
          found.push({ group, staleness });
        }
        const answer = answerBatch(job, { number, status: outcome.status, groups: found });
        return json(state, answer, outcome.status === "waiting" ? 202 : 200);
      },
    },
    {
      ...none,
      ...secured,
      method: "post",
      path: "/v1/producers/{id}/heartbeat",
      id: "heartbeatProducer",
      summary: "Say that its trainer is there: its lease begins anew, as with every batch.",
      answers: { 200: { description: "Noted.", content: producerAnswer } },
      refusals: [401, 404, 503],
      handle: async (call) => {
        const job = await producerOf(state, call);
        await producers.renew(job);
        return json(state, answerProducer(job));
      },
    },
    ...(Object.keys(actions) as SteerAction[]).map((action): Route => ({
      ...none,
      ...secured,
      method: "post",
      path: `/v1/producers/{id}/${action}`,
      id: `${action}Producer`,
      summary: actions[action].summary,
      answers: { 200: { description: actions[action].answer, content: producerAnswer } },
      refusals: [401, 404, 503],
      handle: async (call) => {
        const job = await producerOf(state, call);
        await producers.steer(job, action);
        return json(state, answerProducer(job));
      },
    })),
  ];
}
