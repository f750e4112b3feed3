// A person at the terminal acts as the user. For one person: conversations of several episodes
// alternate line by line. Not an editor: lines are read in the terminal's own mode, so that Ctrl-C
// still ends the process.

import { EventEmitter, once } from "node:events";
import { createInterface, type Interface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import {
  ConfigurationError,
  freeUsage,
  type PastLine,
  type Task,
  type UserLine,
  type UserSimulator,
  type UserSource,
} from "../core/index.ts";
import { createSemaphore } from "../lib/limits.ts";
import { type Answer, cancelledFailure, lineFrom, orderedUser, stopMarker, utteranceIn } from "./conversation.ts";
import { visible, visibleLine } from "../lib/text.ts";

export type HumanUserOptions = {
  /** Source of lines. Default: stdin, which must then be a terminal. */
  readonly input?: Readable;
  /**
   * Output for the agent's utterances and the prompt. Default: stderr, so that stdout stays free
   * for results.
   */
  readonly output?: Writable;
};

const help = `Answer as the user. /quit, ${stopMarker} or the end of input hangs up.`;

/**
 * Shows the agent's utterances and reads one line as the answer. `/quit` and the end of input hang
 * up without text; empty lines are requested again. Throws a `ConfigurationError` when stdin is not
 * a terminal and no `input` is given.
 */
export function humanUser(options: HumanUserOptions = {}): UserSource {
  if (options.input === undefined && !process.stdin.isTTY) {
    throw new ConfigurationError(
      'Cannot use user "human": stdin is not a terminal; run in a terminal, or choose another user ("llm", "agenda").',
    );
  }
  const output = options.output ?? process.stderr;
  const reader = new LineReader(options.input ?? process.stdin);
  const turns = createSemaphore(1);

  const ask = (task: Task, shown: string, signal: AbortSignal | undefined): Promise<UserLine> =>
    turns.run(async () => {
      output.write(shown);
      for (;;) {
        output.write(`you (${visibleLine(task.id)})> `);
        const line = await reader.next(signal);
        if (line === null || line.trim() === "/quit") {
          output.write("\n(hung up)\n");
          return { type: "hang-up", text: "", usage: freeUsage };
        }
        if (line.trim() !== "") return lineFrom(line, freeUsage);
      }
    }, signal);

  const agentSays = (task: Task, utterance: string): string =>
    `\nagent (${visibleLine(task.id)}): ${visible(utterance)}\n`;

  const person = (task: Task, spoken: readonly PastLine[]): UserSimulator => {
    const instruction = task.instruction === null ? "" : `\nYour instruction: ${visible(task.instruction)}`;
    // Shown before the first question, with the earlier lines, because a person forgets.
    let earlier = `\nTask ${visibleLine(task.id)}${instruction}\n${help}\n`;
    for (const { utterance: heard, line } of spoken) {
      earlier += `${heard === null ? "" : agentSays(task, heard)}you (${visibleLine(task.id)})> ${visible(line.text)}\n`;
    }
    const answer: Answer = async (said, signal) => {
      const heard = utteranceIn(said);
      const shown = `${earlier}${heard === null ? "" : agentSays(task, heard)}`;
      earlier = "";
      try {
        return await ask(task, shown, signal);
      } catch (error) {
        if (signal?.aborted) throw cancelledFailure(`read a line for task "${task.id}"`, signal);
        throw error;
      }
    };
    return orderedUser("human", answer, spoken.length === 0 ? "new" : "open");
  };

  return {
    name: "human",
    create: (task) => person(task, []),
    resume: (task, { lines: spoken }) => person(task, spoken),
  };
}

/**
 * Reads lines of a stream, one per request. Between requests the stream is paused, so that it does
 * not keep the process alive.
 */
class LineReader {
  readonly #input: Readable;
  readonly #lines: string[] = [];
  readonly #arrivals = new EventEmitter();
  #interface: Interface | null = null;
  #ended = false;

  constructor(input: Readable) {
    this.#input = input;
  }

  /**
   * The next line, or `null` at the end of input. Rejects when the signal aborts, without losing a
   * line.
   */
  async next(signal?: AbortSignal): Promise<string | null> {
    signal?.throwIfAborted();
    const lines = (this.#interface ??= this.#listen());
    try {
      while (this.#lines.length === 0 && !this.#ended) {
        lines.resume();
        await once(this.#arrivals, "arrival", { signal });
      }
    } finally {
      if (!this.#ended) lines.pause();
    }
    return this.#lines.shift() ?? null;
  }

  #listen(): Interface {
    const lines = createInterface({ input: this.#input, terminal: false });
    lines.on("line", (line) => {
      this.#lines.push(line);
      this.#arrivals.emit("arrival");
    });
    lines.on("close", () => {
      this.#ended = true;
      this.#arrivals.emit("arrival");
    });
    return lines;
  }
}
