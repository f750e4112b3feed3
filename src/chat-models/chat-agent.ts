// An agent behind an API: any chat model, read as a renderer reads sampled tokens. What it says is data, however odd; only
// faults of the call are faults.

import type { Attempt, ChatAgent, ChatAnswer, ChatRequest, ParsedAction } from "../core/index.ts";
import { splitThinking } from "../lib/text.ts";
import { type ChatModel, type ChatModelOptions, type ChatReply, UsageMeter } from "./chat-model.ts";
import { createChatModel } from "./create-chat-model.ts";
import { type AskOptions, type CallLimits, createModelCaller, type ModelCaller } from "./model-caller.ts";

export type ChatAgentOptions = ChatModelOptions &
  Omit<CallLimits, "maxReasks"> & {
    /** A model of your own, instead of `model`, `url` and `provider`. */
    readonly chat?: ChatModel;
  };

/**
 * An agent for `runChatEpisode`, shared by all episodes. Throws a `ConfigurationError` for settings that cannot work, before
 * any call.
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

/** One answer of a caller's model, with what all its attempts cost. */
export async function answerOf(
  caller: ModelCaller,
  { messages, tools, turn, seed }: ChatRequest,
  { onRetry, ...options }: Pick<AskOptions, "signal" | "sampling" | "onRetry" | "retries">,
): Promise<ChatAnswer> {
  const meter = new UsageMeter();
  const attempts: Attempt[] = [];
  const reply = await caller.ask(messages, (answer) => answer, {
    ...{ ...options, tools, seed, meter: meter.add },
    onRetry: (attempt) => {
      attempts.push(attempt);
      onRetry?.(attempt);
    },
  });
  return { action: readReply(reply, turn), usage: meter.total(), attempts };
}

function readReply({ text, reasoning, toolCalls, isCutOff }: ChatReply, turn: number): ParsedAction {
  const { thinking, content } = splitThinking(text);
  return {
    text,
    reasoning: reasoning ?? thinking,
    content: thinking === null ? content : content.trim(),
    toolCalls: toolCalls.map(({ id, name, argumentsText }, index) => ({
      id: id ?? `call_${turn}_${index}`,
      name,
      argumentsText,
    })),
    problems: [],
    isTerminated: !isCutOff,
  };
}
