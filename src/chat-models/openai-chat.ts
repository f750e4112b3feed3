// Chat completions of any OpenAI-compatible server (vLLM, SGLang, OpenAI, OpenRouter, ...),
// directly over the shared HTTP pool: messages and tools in, one reply out. Without streaming,
// because only whole replies are used.

import type { ToolCall } from "../core/index.ts";
import { createRedactor, headerValue, parseBaseUrl, showTarget, type BaseUrl } from "../http/index.ts";
import { type JsonObject, toPlain } from "../python-semantics/json/index.ts";
import { findHostKey } from "./api-key.ts";
import { type ChatModel, type NamedModelOptions, priceOf, usageOfCall, type ChatMessage } from "./chat-model.ts";
import { modelPool } from "./model-caller.ts";
import { askingOf, modelFailure, type ModelPart, statusFailure } from "./model-failure.ts";
import { jsonIn, readWireText } from "./wire-answer.ts";

const maxReplyBytes = 16 * 1024 * 1024;
const longestExcerpt = 300;

export function openAiChat(options: NamedModelOptions & { readonly url: string }): ChatModel {
  const { role, url, model, headers = {}, extraBody = {} } = options;
  const { part } = role;
  const base = chatBase(url, part, options.authorization);
  const apiKey = base.authorization === null ? findHostKey(part, base, options) : null;
  const http = options.http ?? modelPool(part, options.maxConcurrency);
  const redact = createRedactor([apiKey, ...base.secrets, ...Object.values(headers)]);
  const price = priceOf(model, options.prices);
  const sent = {
    "content-type": "application/json",
    ...(apiKey === null ? {} : { authorization: `Bearer ${apiKey}` }),
    ...headers,
  };
  return {
    name: model,
    complete: async (messages, { tools = [], seed = null, format = null, sampling = {}, signal } = {}) => {
      const { temperature, topP: top_p, maxNewTokens: max_tokens, stop } = { ...options.sampling, ...sampling };
      // Fields that are undefined are omitted.
      const body = JSON.stringify({
        model,
        messages: openAiMessages(messages),
        ...(tools.length === 0 ? {} : { tools: tools.map(({ definition }) => toPlain(definition)) }),
        temperature,
        top_p,
        max_tokens,
        stop,
        ...(seed === null ? {} : { seed }),
        ...(format === null
          ? {}
          : { response_format: { type: "json_schema", json_schema: { ...format, strict: true } } }),
        ...extraBody,
      });
      const request = { base, method: "POST", path: "/chat/completions", headers: sent, body } as const;
      const answer = await http.request(request, { signal, maxBytes: maxReplyBytes });
      const text = answer.body.toString("utf8");
      const excerpt = redact(text).slice(0, longestExcerpt);
      const where = `"${model}" at ${showTarget(request)}`;
      const header = (name: string): string | null => headerValue(answer.headers, name);
      const refused = (status: number) => statusFailure({ part, status, header, body: excerpt, where });
      if (answer.status !== 200) throw refused(answer.status);
      const {
        tokens,
        id: _,
        items: __,
        ...reply
      } = readWireText("chat", text, {
        refused,
        unreadable: (problem) =>
          modelFailure(part, "bad-reply", {
            message: `Cannot ${askingOf(part, where)}: its answer ${problem}, expected a chat completion.`,
            cause: excerpt,
          }),
      });
      return { ...reply, usage: usageOfCall(tokens, price) };
    },
  };
}

/**
 * Parses `http://host:8000`, `https://host/v1` or the full address of chat completions. Throws a
 * `ConfigurationError`.
 */
export function chatBase(url: string, part: ModelPart, authorization: string | null = null): BaseUrl {
  const setting = `--${part}-authorization-env`;
  const base = parseBaseUrl(url, { what: `${part} model`, authorization, setting });
  const path = base.path.replace(/\/chat\/completions$/, "");
  return { ...base, path: path === "" && base.path === "" ? "/v1" : path };
}

function openAiMessages(messages: readonly ChatMessage[]): object[] {
  return messages.map((message) => {
    if (message.role === "tool") {
      const { callId, name, content } = message;
      // Servers refuse a tool result without its call, such as feedback on text that was not a
      // valid call.
      if (callId === null) return { role: "user", content };
      return { role: "tool", tool_call_id: callId, name: safeName(name), content };
    }
    const { role, content } = message;
    const calls = "toolCalls" in message ? message.toolCalls : [];
    if (calls.length === 0) return { role, content };
    const tool_calls = calls.map((call) => ({
      id: call.id,
      type: "function",
      function: { name: safeName(call.name), arguments: argumentsOf(call) === null ? "{}" : call.argumentsText },
    }));
    return { role, content: content === "" ? null : content, tool_calls };
  });
}

/** The name with characters and length that providers allow. */
export function safeName(name: string): string {
  return name.replaceAll(/[^A-Za-z0-9_-]/g, "_").slice(0, 64) || "unknown";
}

/** `null` if the text is not a JSON object. */
export function argumentsOf({ argumentsText }: ToolCall): JsonObject | null {
  const value = jsonIn(argumentsText);
  return value instanceof Map ? value : null;
}
