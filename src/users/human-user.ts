// A person at the terminal plays the user. One person: conversations of several episodes take turns line by line. Not an
// editor: lines are read in the terminal's own mode, so that Ctrl-C stays with the process.

import { createInterface, type Interface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { ConfigurationError, freeUsage, type Task, type UserLine, type UserSource } from "../core/index.ts";
import { createSemaphore } from "../lib/limits.ts";
import { CallOrder, lineFrom, stopMarker } from "./call-order.ts";
import { cancelledFailure } from "./user-failure.ts";

export type HumanUserOptions = {
  /** Where lines come from. Default: stdin, which must then be a terminal. */
  readonly input?: Readable;
  /** Where the agent's words and the prompt go. Default: stderr, so that stdout stays free for results. */
  readonly output?: Writable;
};

const help = `Answer as the user. /quit, ${stopMarker} or the end of input hangs up.`;

/**
 * Shows what the agent says and reads one line for it. `/quit` and the end of input hang up without words; empty lines are
 * requested again. Throws a `ConfigurationError` when stdin is no terminal and no `input` is given.
 */
export function humanUser(options: HumanUserOptions = {}): UserSource {
  if (options.input === undefined && !process.stdin.isTTY) {
    throw new ConfigurationError(
      'Cannot let a person play the user: stdin is no terminal; run in a terminal, or choose another user ("llm", "agenda").',
    );
  }
  const output = options.output ?? process.stderr;
  const reader = new LineReader(options.input ?? process.stdin);
  const turns = createSemaphore(1);

  const ask = (task: Task, shown: string, signal: AbortSignal | undefined): Promise<UserLine> =>
    turns.run(async () => {
      output.write(shown);
      for (;;) {
        output.write(`you (${task.id})> `);
        const line = await reader.next(signal);
        if (line === null || line.trim() === "/quit") {
          output.write("\n(hung up)\n");
          return { type: "hang-up", text: "", usage: freeUsage };
        }
        if (line.trim() !== "") return lineFrom(line, freeUsage);
      }
    }, signal);

  const cancellable = async (task: Task, shown: string, signal: AbortSignal | undefined): Promise<UserLine> => {
    try {
      return await ask(task, shown, signal);
    } catch (error) {
      if (signal?.aborted) throw cancelledFailure(`read a line for task "${task.id}"`, signal);
      throw error;
    }
  };

  const introduce = (task: Task): string => {
    const instruction = task.instruction === null ? "" : `\nYour instruction: ${task.instruction}`;
    return `\nTask ${task.id}${instruction}\n${help}\n`;
  };
  const agentSays = (task: Task, words: string): string => `\nagent (${task.id}): ${words}\n`;

  return {
    name: "human",
    create: (task) => {
      const order = new CallOrder("human");
      return {
        open: ({ signal } = {}) => order.run("open", () => cancellable(task, introduce(task), signal)),
        reply: (words, { signal } = {}) => order.run("reply", () => cancellable(task, agentSays(task, words), signal)),
      };
    },
    resume: (task, { spoken }) => {
      const order = new CallOrder("human", "open");
      // Shown before the first new question, because a person forgets.
      let earlier = introduce(task);
      for (const { heard, line } of spoken) {
        earlier += `${heard === null ? "" : agentSays(task, heard)}you (${task.id})> ${line.text}\n`;
      }
      return {
        open: ({ signal } = {}) => order.run("open", () => cancellable(task, earlier, signal)),
        reply: (words, { signal } = {}) =>
          order.run("reply", () => {
            const shown = `${earlier}${agentSays(task, words)}`;
            earlier = "";
            return cancellable(task, shown, signal);
          }),
      };
    },
  };
}

/** Lines of a stream, one per request. Between requests the stream rests, so that it does not keep the process alive. */
class LineReader {
  readonly #input: Readable;
  readonly #lines: string[] = [];
  #interface: Interface | null = null;
  #ended = false;
  #wake: (() => void) | null = null;

  constructor(input: Readable) {
    this.#input = input;
  }

  /** The next line, or `null` at the end of input. Rejects with the signal's reason; no line is lost by that. */
  async next(signal?: AbortSignal): Promise<string | null> {
    signal?.throwIfAborted();
    this.#listen();
    while (this.#lines.length === 0 && !this.#ended) {
      this.#interface?.resume();
      await new Promise<void>((resolve, reject) => {
        const onAbort = (): void => {
          this.#wake = null;
          this.#interface?.pause();
          reject(signal?.reason as Error);
        };
        this.#wake = () => {
          signal?.removeEventListener("abort", onAbort);
          resolve();
        };
        signal?.addEventListener("abort", onAbort, { once: true });
      });
    }
    if (!this.#ended) this.#interface?.pause();
    return this.#lines.shift() ?? null;
  }

  #listen(): void {
    if (this.#interface !== null) return;
    this.#interface = createInterface({ input: this.#input, terminal: false });
    const wake = (): void => {
      const waiting = this.#wake;
      this.#wake = null;
      waiting?.();
    };
    this.#interface.on("line", (line) => {
      this.#lines.push(line);
      wake();
    });
    this.#interface.on("close", () => {
      this.#ended = true;
      wake();
    });
  }
}
