// Plays recorded exchanges back: the same lines, faults, usage and cost, without a model. It answers only what was asked
// when it was recorded; anything else is a failure that shows the difference, so that a changed agent is noticed.

import { AttributedError, ConfigurationError, type UserLine, type UserSource } from "../core/index.ts";
import { CallOrder } from "./call-order.ts";
import { conversationKey } from "./recording-user.ts";
import { rehearsedUser } from "./rehearsed-user.ts";
import type { UserExchange } from "./user-exchange.ts";
import { cancelledFailure, userFailure } from "./user-failure.ts";

/**
 * Conversations are found by task and seed; the n-th user of the same task and seed plays the n-th take. `create` throws a
 * `ConfigurationError` for one that was not recorded; other words than recorded fail with code "replay-mismatch".
 */
export function replayingUser(exchanges: readonly UserExchange[]): UserSource {
  const conversations = groupByTake(exchanges);
  const played = new Map<string, number>();
  const create: UserSource["create"] = (task, { seed }) => {
    const key = conversationKey(task, seed);
    const take = played.get(key) ?? 0;
    const recorded = conversations.get(takeKey(task.id, seed, take));
    if (recorded === undefined) {
      throw new ConfigurationError(
        `Cannot replay the user of task "${task.id}" with seed ${seed}: take ${take} is not among the ${conversations.size} recorded ` +
          "conversations; run with the settings and the seed of the recording.",
      );
    }
    played.set(key, take + 1);
    const order = new CallOrder("replay");
    let index = 0;
    const answer = async (words: string | null, signal: AbortSignal | undefined): Promise<UserLine> => {
      if (signal?.aborted) throw cancelledFailure(`replay the user of task "${task.id}"`, signal);
      const exchange = recorded[index];
      if (exchange === undefined || exchange.words !== words) {
        throw mismatch(`line ${index} of task "${task.id}"`, words, exchange);
      }
      index++;
      if (exchange.answer.type === "line") return exchange.answer.line;
      throw new AttributedError(exchange.answer.failure);
    };
    return {
      open: ({ signal } = {}) => order.run("open", () => answer(null, signal)),
      reply: (words, { signal } = {}) => order.run("reply", () => answer(words, signal)),
    };
  };
  return {
    name: "replay",
    create,
    resume: (task, { seed, spoken }) => rehearsedUser(create(task, { seed }), spoken),
  };
}

function mismatch(where: string, words: string | null, exchange: UserExchange | undefined): AttributedError {
  const recorded =
    exchange === undefined ? "the conversation was over" : `the agent said ${JSON.stringify(exchange.words)}`;
  return userFailure(
    "replay-mismatch",
    `Cannot replay ${where}: the agent says ${JSON.stringify(words)}, in the recording ${recorded}; record the conversation anew.`,
  );
}

const takeKey = (taskId: string, seed: number, take: number): string => JSON.stringify([taskId, seed, take]);

/**
 * Exchanges of one take in the order of their index, whatever the order of the records. The last of an index counts: a run
 * that was killed asks again for a line that was recorded here and had not counted there.
 */
function groupByTake(exchanges: readonly UserExchange[]): ReadonlyMap<string, readonly UserExchange[]> {
  const groups = new Map<string, Map<number, UserExchange>>();
  for (const exchange of exchanges) {
    const key = takeKey(exchange.taskId, exchange.seed, exchange.take);
    const group = groups.get(key) ?? new Map<number, UserExchange>();
    groups.set(key, group.set(exchange.index, exchange));
  }
  return new Map(
    [...groups].map(([key, group]) => [key, [...group.values()].sort((left, right) => left.index - right.index)]),
  );
}
