// Recorded exchanges with a user: stored before they count, and played back without a model, with the same lines, faults, usage
// and cost. A replayed user answers only what it was recorded for; anything else is a failure that shows the difference, so that a
// changed agent is noticed.

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
import { CallOrder, rehearsedUser } from "./call-order.ts";
import { cancelledFailure, userFailure } from "./user-failure.ts";

/** Is handed each exchange as it happens and awaited before the line is passed on. A rejection fails the line. */
export type ExchangeSink = (exchange: UserExchange) => void | Promise<void>;

/** A source that behaves as `source` does and records faults too, cancelled calls excepted. */
export function recordingUser(source: UserSource, sink: ExchangeSink): UserSource {
  const takes = new Map<string, number>();
  const recorded = (task: Task, options: { readonly seed: number }, user: UserSimulator, said: number) => {
    const take = takes.get(conversationKey(task, options.seed)) ?? 0;
    takes.set(conversationKey(task, options.seed), take + 1);
    let index = said;
    const record = async (
      words: string | null,
      signal: AbortSignal | undefined,
      call: () => Promise<UserLine>,
    ): Promise<UserLine> => {
      const store = async (answer: UserExchange["answer"]): Promise<void> =>
        sink({ taskId: task.id, seed: options.seed, take, index: index++, words, answer });
      let line: UserLine;
      try {
        line = await call();
      } catch (error) {
        // A cancellation is ours, not the user's: a replay must not cancel.
        if (!signal?.aborted) await store({ type: "failure", failure: attribute(error, "user").failure });
        throw error;
      }
      await store({ type: "line", line });
      return line;
    };
    return {
      open: (call) => record(null, call?.signal, () => user.open(call)),
      reply: (words, call) => record(words, call?.signal, () => user.reply(words, call)),
    } satisfies UserSimulator;
  };
  const recording: UserSource = {
    name: source.name,
    create: (task, options) => recorded(task, options, source.create(task, options), 0),
  };
  if (source.resume === undefined) return recording;
  return {
    ...recording,
    resume: (task, options) => recorded(task, options, source.resume!(task, options), options.spoken.length),
  };
}

/** Conversations with the same key differ in their take. */
function conversationKey(task: Task, seed: number): string {
  return JSON.stringify([task.id, seed]);
}

export type UserExchange = {
  readonly taskId: string;
  readonly seed: number;
  /** Counts the conversations of this task and seed, from 0. */
  readonly take: number;
  /** Place in the conversation; 0 is the first words. */
  readonly index: number;
  /** What the agent said; `null` for the first words. */
  readonly words: string | null;
  readonly answer:
    | { readonly type: "line"; readonly line: UserLine }
    | { readonly type: "failure"; readonly failure: Failure };
};

/** Reads JSON lines; empty lines are skipped. Throws a `ConfigurationError` that names the first line that is no exchange. */
export function parseUserExchanges(text: string): UserExchange[] {
  return text.split("\n").flatMap((line, index) => {
    if (line.trim() === "") return [];
    const exchange = readExchange(line);
    if (exchange !== null) return [exchange];
    throw new ConfigurationError(
      `Cannot read recorded user exchanges: line ${index + 1} is no exchange; give a file that a recording user has written.`,
    );
  });
}

function readExchange(line: string): UserExchange | null {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return null;
  }
  return isExchange(value) ? value : null;
}

type Fields = Readonly<Record<string, unknown>>;
const fieldsOf = (value: unknown): Fields => (typeof value === "object" && value !== null ? (value as Fields) : {});

function isExchange(value: unknown): value is UserExchange {
  const { taskId, seed, take, index, words, answer } = fieldsOf(value);
  return (
    typeof taskId === "string" &&
    [seed, take, index].every((number) => typeof number === "number") &&
    (words === null || typeof words === "string") &&
    isAnswer(fieldsOf(answer))
  );
}

function isAnswer({ type, line, failure }: Fields): boolean {
  if (type === "failure") {
    const { boundary, code, message, retryable, cause } = fieldsOf(failure);
    return (
      typeof boundary === "string" &&
      typeof code === "string" &&
      typeof message === "string" &&
      typeof retryable === "boolean" &&
      (cause === null || typeof cause === "string")
    );
  }
  const { type: lineType, text, usage } = fieldsOf(line);
  const { modelCalls, inputTokens, outputTokens, cost } = fieldsOf(usage);
  return (
    type === "line" &&
    (lineType === "words" || lineType === "hang-up") &&
    typeof text === "string" &&
    [modelCalls, inputTokens, outputTokens].every((number) => typeof number === "number") &&
    (cost === null || typeof cost === "number")
  );
}

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
    `Cannot replay ${where}: the agent says ${JSON.stringify(words)}, in the recording ${recorded}; record the conversation again.`,
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
