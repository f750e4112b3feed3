// Recorded exchanges with a user: stored before they count, and replayed without a model, with the
// same lines, faults, usage and cost. A replayed user answers only recorded messages; any other
// message is a failure that shows the difference, so that a changed agent is noticed.

import { z } from "zod";
import {
  AttributedError,
  ConfigurationError,
  type UserLine,
  type UserSource,
  type Failure,
  attribute,
  type Task,
  type UserSimulator,
} from "../core/index.ts";
import { isSameValue } from "../python-semantics/json/value.ts";
import { dumpJson, type JsonObject, parseJson } from "../python-semantics/json/index.ts";
import {
  askUser,
  cancelledFailure,
  type HeardByUser,
  orderedUser,
  rehearsedUser,
  userFailure,
  userFrom,
} from "./conversation.ts";
import { jsonOf } from "../lib/text.ts";

/**
 * Receives each exchange as it happens, and is awaited before the line is passed on. A rejection
 * fails the line.
 */
export type ExchangeSink = (exchange: UserExchange) => void | Promise<void>;

/** A source that behaves like `source` and also records faults, except for cancelled calls. */
export function recordingUser(source: UserSource, sink: ExchangeSink): UserSource {
  const takes = new Map<string, number>();
  const recorded = (task: Task, { seed }: { readonly seed: number }, user: UserSimulator, said: number) => {
    const key = conversationKey(task.id, seed);
    const take = takes.get(key) ?? 0;
    takes.set(key, take + 1);
    let index = said;
    return userFrom(async (heard, signal, where) => {
      const store = async (answer: UserExchange["answer"]): Promise<void> =>
        sink({ taskId: task.id, seed, take, index: index++, utterance: recordedUtterance(heard), answer });
      let line: UserLine;
      try {
        line = await askUser(user, heard, signal, where);
      } catch (error) {
        // A cancellation is ours, not the user's: a replay must not cancel.
        if (!signal?.aborted) await store({ type: "failure", failure: attribute(error, "user").failure });
        throw error;
      }
      const { calls, ...rest } = line;
      const told = calls?.map((call) => ({ ...call, arguments: dumpJson(call.arguments) }));
      await store({ type: "line", line: told === undefined ? rest : { ...rest, calls: told } });
      return line;
    });
  };
  const recording: UserSource = {
    name: source.name,
    create: (task, options) => recorded(task, options, source.create(task, options), 0),
  };
  if (source.resume === undefined) return recording;
  return {
    ...recording,
    resume: (task, options) => recorded(task, options, source.resume!(task, options), options.lines.length),
  };
}

/** Key of a conversation; conversations of one task and seed differ in their take. */
const conversationKey = (taskId: string, seed: number, take?: number): string => JSON.stringify([taskId, seed, take]);

const failure: z.ZodType<Failure> = z.object({
  boundary: z.string() as unknown as z.ZodType<Failure["boundary"]>,
  code: z.string(),
  message: z.string(),
  retryable: z.boolean(),
  cause: z.string().nullable(),
});
const usage = z.object({
  modelCalls: z.number(),
  inputTokens: z.number(),
  outputTokens: z.number(),
  cost: z.number().nullable(),
});
/** Arguments are JSON text, so that numbers keep their kind. */
const call = z.object({ id: z.string(), name: z.string(), arguments: z.string() });
const line = z.object({
  type: z.enum(["utterance", "hang-up", "calls"]),
  text: z.string(),
  usage,
  calls: z.array(call).optional(),
});

const userExchange = z
  .object({
    taskId: z.string(),
    seed: z.number(),
    /** Number of the conversation of this task and seed, from 0. */
    take: z.number(),
    /** Place in the conversation; 0 is the first line. */
    index: z.number(),
    /** The agent's utterance, or the results of the user's own calls; `null` for the first line. */
    utterance: z.union([z.string(), z.array(z.string())]).nullable(),
    answer: z.union([
      z.object({ type: z.literal("line"), line }).readonly(),
      z.object({ type: z.literal("failure"), failure }).readonly(),
    ]),
  })
  .readonly();

export type UserExchange = z.infer<typeof userExchange>;

/**
 * Reads JSON lines; empty lines are skipped. Throws a `ConfigurationError` that names the first
 * line that is not an exchange.
 */
export function parseUserExchanges(text: string): UserExchange[] {
  return text.split("\n").flatMap((content, index) => {
    if (content.trim() === "") return [];
    const { data } = userExchange.safeParse(jsonOf(content));
    if (data !== undefined) return [data];
    throw new ConfigurationError(
      `Cannot read recorded user exchanges: line ${index + 1} is not an exchange; use a file that a recording user wrote.`,
    );
  });
}

/**
 * Replays recorded conversations, found by task and seed; the n-th user of the same task and seed
 * replays the n-th take. `create` throws a `ConfigurationError` for a conversation that was not
 * recorded; an utterance that differs from the recorded one fails with code "replay-mismatch".
 */
export function replayingUser(exchanges: readonly UserExchange[]): UserSource {
  const conversations = groupByTake(exchanges);
  const played = new Map<string, number>();
  const create: UserSource["create"] = (task, { seed }) => {
    const key = conversationKey(task.id, seed);
    const take = played.get(key) ?? 0;
    const recorded = conversations.get(conversationKey(task.id, seed, take));
    if (recorded === undefined) {
      throw new ConfigurationError(
        `Cannot replay the user of task "${task.id}" with seed ${seed}: take ${take} is not among the ${conversations.size} recorded ` +
          "conversations; run with the settings and the seed of the recording.",
      );
    }
    played.set(key, take + 1);
    let index = 0;
    return orderedUser("replay", async (heard, signal) => {
      if (signal?.aborted) throw cancelledFailure(`replay the user of task "${task.id}"`, signal);
      const exchange = recorded[index];
      if (exchange === undefined || !isSameValue(exchange.utterance, recordedUtterance(heard))) {
        throw mismatch(`line ${index} of task "${task.id}"`, recordedUtterance(heard), exchange);
      }
      index++;
      if (exchange.answer.type === "line") return lineOf(exchange.answer.line);
      throw new AttributedError(exchange.answer.failure);
    });
  };
  return {
    name: "replay",
    create,
    resume: (task, { seed, lines: spoken }) => rehearsedUser(create(task, { seed }), spoken),
  };
}

function recordedUtterance(heard: HeardByUser): UserExchange["utterance"] {
  return heard === null || typeof heard === "string" ? heard : heard.map(({ text }) => text);
}

function lineOf({ calls, ...rest }: z.infer<typeof line>): UserLine {
  if (calls === undefined) return rest;
  return { ...rest, calls: calls.map((one) => ({ ...one, arguments: parseJson(one.arguments) as JsonObject })) };
}

function mismatch(
  where: string,
  heard: UserExchange["utterance"],
  exchange: UserExchange | undefined,
): AttributedError {
  const recorded =
    exchange === undefined ? "the conversation was over" : `the agent said ${JSON.stringify(exchange.utterance)}`;
  return userFailure(
    "replay-mismatch",
    `Cannot replay ${where}: the agent said ${JSON.stringify(heard)}, but in the recording ${recorded}; record the conversation again.`,
  );
}

/**
 * Exchanges of each take, sorted by index. If an index occurs several times, the last record
 * counts: a killed run may request a line again that was already recorded here but not yet in the
 * run.
 */
function groupByTake(exchanges: readonly UserExchange[]): ReadonlyMap<string, readonly UserExchange[]> {
  const groups = new Map<string, Map<number, UserExchange>>();
  for (const exchange of exchanges) {
    const key = conversationKey(exchange.taskId, exchange.seed, exchange.take);
    const group = groups.get(key) ?? new Map<number, UserExchange>();
    groups.set(key, group.set(exchange.index, exchange));
  }
  return new Map(
    [...groups].map(([key, group]) => [key, [...group.values()].sort((left, right) => left.index - right.index)]),
  );
}
