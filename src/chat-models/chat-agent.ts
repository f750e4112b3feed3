// An agent behind an API: any chat model, whose replies are parsed like a renderer parses sampled
// tokens. Any reply is data, however malformed; only faults of the call are failures.

import {
  type Attempt,
  AttributedError,
  type ChatAgent,
  type ChatAnswer,
  type ChatRequest,
  type ParsedAction,
} from "../core/index.ts";
import { splitReasoning } from "../lib/reasoning.ts";
import { type ChatModel, type ChatModelOptions, type ChatReply, UsageMeter } from "./chat-model.ts";
import { createChatModel } from "./create-chat-model.ts";
import { type AskOptions, type CallLimits, createModelCaller, type ModelCaller } from "./model-caller.ts";
import { modelFailure } from "./model-failure.ts";

export type ChatAgentOptions = ChatModelOptions &
  Omit<CallLimits, "maxReasks"> & {
    /** A custom model, instead of `model`, `url` and `provider`. */
    readonly chat?: ChatModel;
  };

/**
 * An agent for `runChatEpisode`, shared by all episodes. Throws a `ConfigurationError` for invalid
 * settings, before any call.
 *
 * @example
 * chatAgent({ model: "anthropic/claude-haiku-4-5", sampling: { temperature: 0 } });
 */
export function chatAgent(options: ChatAgentOptions): ChatAgent {
  const model = options.chat ?? createChatModel({ part: "agent", title: "the agent" }, options);
  const caller = createModelCaller(model, "agent", options);
  return {
    name: model.name,
    reply: (request, { signal } = {}) => answerOf(caller, request, { signal }),
  };
}

/**
 * One answer of a caller's model, with the total usage of its attempts. A reply that has only
 * reasoning is requested again.
 */
export async function answerOf(
  caller: ModelCaller,
  { messages, tools, turn, seed }: ChatRequest,
  { onRetry, ...options }: Pick<AskOptions, "signal" | "sampling" | "onRetry" | "retries">,
): Promise<ChatAnswer> {
  const meter = new UsageMeter();
  const attempts: Attempt[] = [];
  let action: ParsedAction | null = null;
  const read = (answer: ChatReply): ParsedAction => {
    action = readReply(answer, turn);
    if (saysSomething(action)) return action;
    const message = `Cannot take the reply of the agent model as an action: it is nothing but reasoning; it is requested again.`;
    throw modelFailure("agent", "empty-reply", { message });
  };
  const asked = caller.ask(messages, read, {
    ...options,
    tools,
    seed,
    meter: meter.add,
    onRetry: (attempt) => {
      attempts.push(attempt);
      onRetry?.(attempt);
    },
  });
  const said = await asked.catch((error: unknown) => {
    // A model that only ever reasons has given an empty reply, which is a valid action.
    if (action !== null && error instanceof AttributedError && error.failure.code === "empty-reply") return action;
    throw error;
  });
  return { action: said, usage: meter.total(), attempts };
}

function readReply({ text, reasoning: reported, toolCalls, isTruncated }: ChatReply, turn: number): ParsedAction {
  const { reasoning, content } = splitReasoning(text, { isTruncated });
  const thoughts = [reported, reasoning].filter((part) => part !== null);
  return {
    text,
    reasoning: thoughts.length === 0 ? null : thoughts.join("\n\n"),
    content,
    toolCalls: toolCalls.map(({ id, name, argumentsText }, index) => ({
      id: id ?? `call_${turn}_${index}`,
      name,
      argumentsText,
    })),
    problems: [],
    isTerminated: !isTruncated,
  };
}

/**
 * False for a reply that ended by itself and has only reasoning. An empty reply and a truncated
 * reply are actions.
 */
function saysSomething({ reasoning, content, toolCalls, isTerminated }: ParsedAction): boolean {
  return reasoning === null || content.trim() !== "" || toolCalls.length > 0 || !isTerminated;
}
