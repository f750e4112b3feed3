// The user simulated by a model, whatever its strategy: makes the conversation, hands each call to the strategy, sums the
// usage and recognises the hang-up. The roles are turned round: the model answers as "assistant" and is the user; the
// agent's words come to it as "user".

import { type ChatWords, type ModelCaller, UsageMeter } from "../chat-models/index.ts";
import {
  ConfigurationError,
  type SpokenLine,
  type Task,
  type UserLine,
  type UserSimulator,
  type UserSource,
} from "../core/index.ts";
import { CallOrder } from "./call-order.ts";
import type { UserPrompts } from "./prompts.ts";
import { lineFrom } from "./stop-marker.ts";

/** What a strategy sees of one episode. */
export type Conversation = {
  readonly instruction: string | null;
  /** What the model is shown. The strategy appends what it is to remember. */
  readonly messages: ChatWords[];
  readonly prompts: UserPrompts;
  /** Asks the model; `read` turns the reply into what the strategy needs, and its retryable failures are asked again. */
  readonly ask: <T>(messages: readonly ChatWords[], read: (reply: string) => T) => Promise<T>;
};

/** How the next line is found. A frozen value: the state of an episode is in its conversation. */
export type UserStrategy = {
  readonly name: string;
  readonly systemPrompt: (prompts: UserPrompts, instruction: string | null) => string;
  readonly nextLine: (conversation: Conversation) => Promise<string>;
  /**
   * What the model is shown of a line that it has said, when a conversation is taken up: only the lines are recorded, so
   * what it thought beside them is gone.
   */
  readonly asRemembered: (line: string) => string;
  /** Conversations begun without an instruction and thrown away before the real one (a habit of upstream's constructors). */
  readonly rehearsals: number;
};

export type ModelUserParts = {
  readonly strategy: UserStrategy;
  readonly caller: ModelCaller;
  readonly prompts: UserPrompts;
};

/** Users that follow a strategy; `create` throws a `ConfigurationError` for a task without an instruction. */
export function modelUsers({ strategy, caller, prompts }: ModelUserParts): UserSource {
  return {
    name: strategy.name,
    create: (task) => new ModelUser({ strategy, caller, prompts }, instructionOf(task, strategy.name)),
    resume: (task, { spoken }) =>
      new ModelUser({ strategy, caller, prompts }, instructionOf(task, strategy.name), spoken),
  };
}

function instructionOf(task: Task, name: string): string {
  if (task.instruction !== null) return task.instruction;
  throw new ConfigurationError(
    `Cannot play task "${task.id}" as user "${name}": the task has no instruction in words; ` +
      'choose a user that needs none, such as "agenda", "scripted" or "human".',
  );
}

class ModelUser implements UserSimulator {
  readonly #parts: ModelUserParts;
  readonly #instruction: string;
  readonly #order: CallOrder;
  #messages: ChatWords[] = [];

  constructor(parts: ModelUserParts, instruction: string, spoken: readonly SpokenLine[] = []) {
    this.#parts = parts;
    this.#instruction = instruction;
    this.#order = new CallOrder(parts.strategy.name, spoken.length === 0 ? "new" : "open");
    this.#begin(instruction);
    for (const { heard, line } of spoken) {
      if (heard !== null) this.#messages.push({ role: "user", content: heard });
      this.#messages.push({ role: "assistant", content: parts.strategy.asRemembered(line.text) });
    }
  }

  open({ signal }: { readonly signal?: AbortSignal } = {}): Promise<UserLine> {
    return this.#order.run("open", async () => {
      const meter = new UsageMeter();
      for (let rehearsal = 0; rehearsal < this.#parts.strategy.rehearsals; rehearsal++) {
        this.#begin(null);
        await this.#next(null, meter, signal);
      }
      this.#begin(this.#instruction);
      return lineFrom(await this.#next(this.#instruction, meter, signal), meter.total());
    });
  }

  reply(words: string, { signal }: { readonly signal?: AbortSignal } = {}): Promise<UserLine> {
    return this.#order.run("reply", async () => {
      const meter = new UsageMeter();
      this.#messages.push({ role: "user", content: words });
      return lineFrom(await this.#next(this.#instruction, meter, signal), meter.total());
    });
  }

  #begin(instruction: string | null): void {
    const { strategy, prompts } = this.#parts;
    this.#messages = [
      { role: "system", content: strategy.systemPrompt(prompts, instruction) },
      { role: "user", content: prompts.greeting },
    ];
  }

  #next(instruction: string | null, meter: UsageMeter, signal: AbortSignal | undefined): Promise<string> {
    const { strategy, prompts, caller } = this.#parts;
    return strategy.nextLine({
      instruction,
      messages: this.#messages,
      prompts,
      ask: (messages, read) => caller.ask(messages, ({ text }) => read(text), { signal, meter: meter.add }),
    });
  }
}
