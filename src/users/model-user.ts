// A user simulated by a model that is called for each line, in a separate conversation. The
// strategy finds the next line; calls, retries and usage come from `chat-models`.

import {
  type CallLimits,
  type ChatModel,
  type ChatModelOptions,
  type ChatText,
  createChatModel,
  createModelCaller,
  UsageMeter,
} from "../chat-models/index.ts";
import { ConfigurationError, type PastLine, type Task, type UserSimulator, type UserSource } from "../core/index.ts";
import { ActingConversation } from "./acting-conversation.ts";
import { type Answer, lineFrom, orderedUser, stopMarker, userFailure, utteranceIn } from "./conversation.ts";
import { ownPrompts, type UserPrompts } from "./prompts.ts";
import {
  type Conversation,
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
    /** A model given as a value, instead of `model`, `url` and `provider`. */
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

/** Thinks before each line, in the same call. Other behaviour like {@link llmUser}. */
export const reactUser = (options: ModelUserOptions): UserSource => modelUser(reactStrategy, options);

/**
 * Has each line checked by a second call, and regenerated when refused: 2 to 6 calls per line.
 * Other behaviour like {@link llmUser}.
 */
export const verifyUser = (options: ModelUserOptions): UserSource => modelUser(verifyStrategy, options);

/**
 * Has each line checked, and reflects on a refused line: 2 or 3 calls per line. Other behaviour
 * like {@link llmUser}.
 */
export const reflectionUser = (options: ModelUserOptions): UserSource => modelUser(reflectionStrategy, options);

function modelUser(strategyOf: (compat: UserCompat) => UserStrategy, options: ModelUserOptions): UserSource {
  const strategy = strategyOf(options.compat ?? "sane");
  const { name } = strategy;
  const chat = options.chat ?? createChatModel({ part: "user", title: `user "${name}"` }, options);
  const caller = createModelCaller(chat, "user", options);
  const prompts: UserPrompts = { ...ownPrompts, ...options.prompts };

  const play = (task: Task, spoken: readonly PastLine[]): UserSimulator => {
    const instruction = instructionOf(task, name);
    const opening = (known: string | null): ChatText[] => [
      { role: "system", content: strategy.systemPrompt(prompts, known) },
      { role: "user", content: prompts.greeting },
    ];
    const messages = opening(instruction);
    for (const { utterance: heard, line } of spoken) {
      if (heard !== null) messages.push({ role: "user", content: heard });
      messages.push({ role: "assistant", content: strategy.asRemembered(line.text) });
    }
    let acting: ActingConversation | null = null;
    const answer: Answer = async (said, signal, { side }) => {
      if (side !== null) {
        acting ??= new ActingConversation(caller, { side, lines: spoken });
        return acting.next(said, signal);
      }
      const heard = utteranceIn(said);
      const meter = new UsageMeter();
      const ask: Conversation["ask"] = (request, read) =>
        caller.ask(request, ({ text, isTruncated }) => read(text, isTruncated), { signal, meter: meter.add });
      if (heard !== null) messages.push({ role: "user", content: heard });
      const rehearsals = heard === null ? strategy.rehearsals : 0;
      for (let rehearsal = 0; rehearsal < rehearsals; rehearsal++) {
        await strategy.nextLine({ instruction: null, messages: opening(null), prompts, ask });
      }
      const line = lineFrom(await strategy.nextLine({ instruction, messages, prompts, ask }), meter.total());
      // A model that quotes its own stop sign must not end an episode in which no one has acted.
      if (heard === null && line.type === "hang-up" && options.compat !== "upstream") {
        throw userFailure(
          "early-hang-up",
          `The user said ${stopMarker} in its first line, before the agent had spoken; choose another model for the user, or change its prompt.`,
        );
      }
      return line;
    };
    return orderedUser(name, answer, spoken.length === 0 ? "new" : "open");
  };
  return {
    name,
    create: (task) => play(task, []),
    resume: (task, { lines: spoken }) => play(task, spoken),
  };
}

function instructionOf(task: Task, name: string): string {
  if (task.instruction !== null) return task.instruction;
  throw new ConfigurationError(
    `Cannot run task "${task.id}" as user "${name}": the task has no instruction in prose; ` +
      'choose a user that does not need one, such as "agenda", "scripted" or "human".',
  );
}
