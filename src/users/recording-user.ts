// Stores every exchange with a user before it counts, so that it can be played back without a model. Works on any source.

import { attribute, type Task, type UserLine, type UserSimulator, type UserSource } from "../core/index.ts";
import type { UserExchange } from "./user-exchange.ts";

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

/** Conversations with the same key are told apart by their take. */
export function conversationKey(task: Task, seed: number): string {
  return JSON.stringify([task.id, seed]);
}
