// Operations on producers: endless groups for a trainer that trains while they run.

import type { z } from "zod";
import { type Call, defineRoute, type Route } from "./open-api.ts";
import type { ProducerJob } from "./producer-job.ts";
import type { SteerAction } from "./request-log.ts";
import { batchBody, producerBody, readBody, readNumber, readProducer } from "./requests.ts";
import { answerGroup, answerProducer, batchAnswer, producerAnswer } from "./responses.ts";
import { boundedWait, json, notFound, type ServiceContext, submissionOf } from "./routes.ts";
import { ServiceError } from "./service-error.ts";

/** Summary and answer of each action. */
const actions: Readonly<Record<SteerAction, readonly [string, string]>> = {
  pause: ["Start no further episodes; those in flight continue.", "Paused."],
  continue: ["Resume a paused producer.", "Resumed."],
  drain: ["Start no further groups; open groups run to completion.", "Draining."],
  cancel: ["Stop permanently; nothing more is handed over.", "Cancelled."],
};

export function producerRoutes(context: ServiceContext): readonly Route[] {
  const { jobs, producers } = context;
  const find = async (call: Call): Promise<ProducerJob> =>
    (await producers.find(call.params["id"] ?? "")) ?? notFound("producer", call);
  return [
    defineRoute("post", "/v1/producers", {
      id: "startProducer",
      summary: "Run groups continuously, for a trainer that takes them in batches.",
      body: producerBody,
      takesKey: true,
      answers: { 200: ["Already known from an earlier request.", producerAnswer], 201: ["Started.", producerAnswer] },
      errors: [409, 429],
      handle: async (call) => {
        const { job, isNew } = await producers.submit(readProducer(call.body), submissionOf(call));
        return json(context, answerProducer(job), isNew ? 201 : 200);
      },
    }),
    defineRoute("get", "/v1/producers/{id}", {
      id: "getProducer",
      summary: "Get a producer.",
      answers: { 200: ["The current state.", producerAnswer] },
      handle: async (call) => json(context, answerProducer(await find(call))),
    }),
    defineRoute("post", "/v1/producers/{id}/batches/{number}", {
      id: "takeBatch",
      summary: "Take the next batch, by its number from 0; an earlier number returns the same batch again.",
      body: batchBody,
      answers: { 200: ["The batch.", batchAnswer], 202: ["The batch is not complete yet.", batchAnswer] },
      errors: [409, 500],
      handle: async (call) => {
        const { groups = null, wait_seconds: seconds } = readBody(batchBody, call.body);
        const job = await find(call);
        await context.guard.check();
        await job.renew();
        const number = readNumber(call.params["number"]);
        const waitMs = boundedWait(seconds ?? 0, context);
        const taking = job.batch(number, { groups, waitMs, signal: call.signal });
        const { status, groups: taken } = await context.guard.recorded(taking);
        const found = [];
        for (const { groupId, staleness } of taken) {
          const group = await jobs.find(groupId);
          if (group === null) throw new ServiceError("internal", `Group "${groupId}" does not exist any more.`);
          found.push({ ...answerGroup(group), staleness });
        }
        const answer: z.infer<typeof batchAnswer> = {
          producer_id: job.producerId,
          number,
          status,
          groups: found,
          producer: answerProducer(job),
        };
        return json(context, answer, status === "waiting" ? 202 : 200);
      },
    }),
    defineRoute("post", "/v1/producers/{id}/heartbeat", {
      id: "heartbeatProducer",
      summary: "Renew the trainer's lease, as every batch request does.",
      answers: { 200: ["Renewed.", producerAnswer] },
      handle: async (call) => {
        const job = await find(call);
        await job.renew();
        return json(context, answerProducer(job));
      },
    }),
    ...(Object.keys(actions) as SteerAction[]).map((action) =>
      defineRoute("post", `/v1/producers/{id}/${action}`, {
        id: `${action}Producer`,
        summary: actions[action][0],
        answers: { 200: [actions[action][1], producerAnswer] },
        handle: async (call) => {
          const job = await find(call);
          await job.steer(action);
          return json(context, answerProducer(job));
        },
      }),
    ),
  ];
}
