// Chat completions of any OpenAI-compatible server (vLLM, SGLang, OpenAI, OpenRouter, ...), straight over the shared HTTP
// pool. Messages and tools in, one reply out. No streaming, since a reply is used whole.

import { createRedactor, headerValue, parseBaseUrl, showTarget, type BaseUrl, type HttpClient } from "../http/index.ts";
import type { ChatSampling } from "./chat-sampling.ts";
import type { ChatModel } from "./chat-model.ts";
import { readCompletion } from "./completion-body.ts";
import { priceOf, usageOfCall, type PriceTable } from "./prices.ts";
import { askingOf, modelFailure, type ModelPart } from "./model-failure.ts";
import { statusFailure } from "./status-failure.ts";
import { openAiMessages, openAiTools } from "./openai-messages.ts";

export type OpenAiChatOptions = {
  readonly part: ModelPart;
  readonly base: BaseUrl;
  /** As the server knows it. */
  readonly model: string;
  /** Sent as bearer token; `null`: none. */
  readonly apiKey: string | null;
  readonly http: HttpClient;
  /** Sent with each request; their values are treated as secrets. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Merged into the body, e.g. `{ temperature: 0.7 }`. Default: nothing, so that the server's own defaults hold. */
  readonly extraBody?: Readonly<Record<string, unknown>>;
  readonly sampling?: ChatSampling;
  readonly prices?: PriceTable | undefined;
};

const maxReplyBytes = 16 * 1024 * 1024;
const longestExcerpt = 300;

export function openAiChat(options: OpenAiChatOptions): ChatModel {
  const { part, base, model, apiKey, http, headers = {}, extraBody = {}, sampling = {} } = options;
  const redact = createRedactor([apiKey, ...base.secrets, base.authorization, ...Object.values(headers)]);
  const price = priceOf(model, options.prices);
  const sent = {
    "content-type": "application/json",
    ...(apiKey === null ? {} : { authorization: `Bearer ${apiKey}` }),
    ...headers,
  };
  const { temperature, topP: top_p, maxNewTokens: max_tokens } = sampling;
  return {
    name: model,
    complete: async (messages, { tools = [], seed = null, signal } = {}) => {
      // What is undefined is left out.
      const body = JSON.stringify({
        model,
        messages: openAiMessages(messages),
        ...(tools.length === 0 ? {} : { tools: openAiTools(tools) }),
        temperature,
        top_p,
        max_tokens,
        ...(seed === null ? {} : { seed }),
        ...extraBody,
      });
      const request = { base, method: "POST", path: "/chat/completions", headers: sent, body } as const;
      const answer = await http.request(request, { signal, maxBytes: maxReplyBytes });
      const text = answer.body.toString("utf8");
      const excerpt = () => redact(text).slice(0, longestExcerpt);
      const where = `"${model}" at ${showTarget(request)}`;
      const refusal = (status: number) =>
        statusFailure({ part, status, header: (name) => headerValue(answer.headers, name), body: excerpt(), where });
      if (answer.status !== 200) throw refusal(answer.status);
      const completion = readCompletion(text);
      switch (completion.type) {
        case "reply": {
          const { tokens, reply } = completion;
          return { ...reply, usage: usageOfCall(tokens, price) };
        }
        case "refused":
          throw refusal(completion.status);
        case "unreadable":
          throw modelFailure(part, "bad-reply", {
            message: `Cannot ${askingOf(part, where)}: its answer ${completion.problem}, a chat completion is wanted.`,
            cause: excerpt(),
          });
        default:
          return completion satisfies never;
      }
    },
  };
}

/** Reads `http://host:8000`, `https://host/v1` or the whole address of chat completions. Throws a `ConfigurationError`. */
export function chatBase(url: string, part: ModelPart): BaseUrl {
  const base = parseBaseUrl(url, { what: `${part} model` });
  const path = base.path.replace(/\/chat\/completions$/, "");
  return { ...base, path: path === "" && base.path === "" ? "/v1" : path };
}
