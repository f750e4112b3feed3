// A user simulated by a model that is called for each line, in a conversation of its own. How a line is found is the
// strategy's; calls, retries and usage are those of `chat-models`.

import {
  type CallLimits,
  type ChatModel,
  type ChatModelOptions,
  type ChatText,
  createChatModel,
  createModelCaller,
  type ModelCaller,
  UsageMeter,
} from "../chat-models/index.ts";
import {
  ConfigurationError,
  type SpokenLine,
  type Task,
  type UserLine,
  type UserSimulator,
  type UserSource,
} from "../core/index.ts";
import { CallOrder, lineFrom } from "./call-order.ts";
import { ownPrompts, type UserPrompts } from "./prompts.ts";
import {
  llmStrategy,
  reactStrategy,
  reflectionStrategy,
  type UserCompat,
  type UserStrategy,
  verifyStrategy,
} from "./strategies.ts";

export type ModelUserOptions = ChatModelOptions &
  CallLimits & {
    /** Replaces single prompts. Default: our own. */
    readonly prompts?: Partial<UserPrompts>;
    /** Default "sane". "upstream" keeps the quirks of the τ-bench reference, for comparison with it. */
    readonly compat?: UserCompat;
    /** A model of your own, instead of `model`, `url` and `provider`. */
    readonly chat?: ChatModel;
  };

/**
 * A user simulated by a model that answers each line with one call. Asynchronous throughout; usage is summed per line.
 * Throws a `ConfigurationError` for settings that cannot work, before any call; `create` throws one for a task without an
 * instruction.
 *
 * @example
 * llmUser({ model: "Qwen/Qwen3-8B", url: "http://127.0.0.1:8000/v1" });
 */
export const llmUser = (options: ModelUserOptions): UserSource => modelUser(llmStrategy, options);

/** Thinks before each line, in the same call. Otherwise as {@link llmUser}. */
export const reactUser = (options: ModelUserOptions): UserSource => modelUser(reactStrategy, options);

/** Has each line checked by a second call, and made again when refused: 2 to 6 calls a line. Otherwise as {@link llmUser}. */
export const verifyUser = (options: ModelUserOptions): UserSource => modelUser(verifyStrategy, options);

/** Has each line checked, and after a refusal reflects on it: 2 or 3 calls a line. Otherwise as {@link llmUser}. */
export const reflectionUser = (options: ModelUserOptions): UserSource => modelUser(reflectionStrategy, options);

function modelUser(strategyOf: (compat: UserCompat) => UserStrategy, options: ModelUserOptions): UserSource {
  const strategy = strategyOf(options.compat ?? "sane");
  const { name } = strategy;
  const chat = options.chat ?? createChatModel({ part: "user", title: `user "${name}"` }, options);
  const caller = createModelCaller(chat, "user", options);
  const parts: ModelUserParts = { strategy, caller, prompts: { ...ownPrompts, ...options.prompts } };
  return {
    name,
    create: (task) => new ModelUser(parts, instructionOf(task, name)),
    resume: (task, { spoken }) => new ModelUser(parts, instructionOf(task, name), spoken),
  };
}

type ModelUserParts = {
  readonly strategy: UserStrategy;
  readonly caller: ModelCaller;
  readonly prompts: UserPrompts;
};

function instructionOf(task: Task, name: string): string {
  if (task.instruction !== null) return task.instruction;
  throw new ConfigurationError(
    `Cannot run task "${task.id}" as user "${name}": the task has no instruction in prose; ` +
      'choose a user that needs none, such as "agenda", "scripted" or "human".',
  );
}

class ModelUser implements UserSimulator {
  readonly #parts: ModelUserParts;
  readonly #instruction: string;
  readonly #order: CallOrder;
  #messages: ChatText[] = [];

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

  reply(utterance: string, { signal }: { readonly signal?: AbortSignal } = {}): Promise<UserLine> {
    return this.#order.run("reply", async () => {
      const meter = new UsageMeter();
      this.#messages.push({ role: "user", content: utterance });
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
