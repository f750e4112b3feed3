// Models behind an API, for simulated users and for agents that are evaluated: chat completions of
// OpenAI-compatible servers and of named providers, with keys, prices, limits and retries; and
// requests of programs, forwarded unchanged. They are not engines: nothing here is trained.

export { findHostKey, type KeyOptions } from "./api-key.ts";
export {
  type ApiModel,
  apiModel,
  apiModelOf,
  type ApiModelOptions,
  type WireReply,
  type WireRequest,
} from "./api-model.ts";
export { chatAgent, type ChatAgentOptions } from "./chat-agent.ts";
export { splitReasoning, type SplitReply } from "../lib/reasoning.ts";
export {
  type ChatMessage,
  type ChatModel,
  type ChatModelOptions,
  type LibraryLoader,
  type ChatOptions,
  type ChatReply,
  type ChatToolCall,
  type ChatText,
  textReply,
  type ChatSampling,
  chatSampling,
  UsageMeter,
  listPrices,
  priceOf,
  type Price,
  type PriceTable,
} from "./chat-model.ts";
export { createChatModel } from "./create-chat-model.ts";
export {
  type AskOptions,
  type CallLimits,
  createModelCaller,
  defaultModelRetry,
  type ModelCaller,
} from "./model-caller.ts";
export {
  cancelledFailure,
  modelFailure,
  type ModelFailureCode,
  type ModelPart,
  type ModelRole,
} from "./model-failure.ts";
export { chatBase } from "./openai-chat.ts";
export { standIn, type WireAnswer, type WireFormat } from "./wire-answer.ts";
export { splitEvents, WireStream } from "./wire-stream.ts";
