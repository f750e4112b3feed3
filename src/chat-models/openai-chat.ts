// Chat completions of any OpenAI-compatible server (vLLM, SGLang, OpenAI, OpenRouter, ...), straight over the shared HTTP
// pool. Messages and tools in, one reply out. No streaming, since a reply is used whole.

import type { ToolCall } from "../core/index.ts";
import { createRedactor, headerValue, parseBaseUrl, showTarget, type BaseUrl } from "../http/index.ts";
import {
  type JsonObject,
  JsonSyntaxError,
  parseJson,
  toPlain,
  dumpJson,
  JsonFloat,
  type JsonValue,
} from "../python-semantics/json/index.ts";
import { findHostKey } from "./api-key.ts";
import {
  type ChatModel,
  type NamedModelOptions,
  priceOf,
  usageOfCall,
  type ChatMessage,
  type ChatToolCall,
} from "./chat-model.ts";
import { modelPool } from "./model-caller.ts";
import { askingOf, modelFailure, type ModelPart, statusFailure } from "./model-failure.ts";

const maxReplyBytes = 16 * 1024 * 1024;
const longestExcerpt = 300;

export function openAiChat(options: NamedModelOptions & { readonly url: string }): ChatModel {
  const { role, url, model, headers = {}, extraBody = {}, sampling = {} } = options;
  const { part } = role;
  const base = chatBase(url, part);
  const apiKey = findHostKey(part, base, options);
  const http = options.http ?? modelPool(part, options.maxConcurrency);
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
    complete: async (messages, { tools = [], seed = null, format = null, signal } = {}) => {
      // What is undefined is left out.
      const body = JSON.stringify({
        model,
        messages: openAiMessages(messages),
        ...(tools.length === 0 ? {} : { tools: tools.map(({ definition }) => toPlain(definition)) }),
        temperature,
        top_p,
        max_tokens,
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
      const { tokens, ...reply } = readCompletion(text, {
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

/** Reads `http://host:8000`, `https://host/v1` or the whole address of chat completions. Throws a `ConfigurationError`. */
export function chatBase(url: string, part: ModelPart): BaseUrl {
  const base = parseBaseUrl(url, { what: `${part} model` });
  const path = base.path.replace(/\/chat\/completions$/, "");
  return { ...base, path: path === "" && base.path === "" ? "/v1" : path };
}

function openAiMessages(messages: readonly ChatMessage[]): object[] {
  return messages.map((message) => {
    if (message.role === "tool") {
      const { callId, name, content } = message;
      // Servers refuse a result without its call; feedback on text that was no call is such a one.
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

/** The name as providers allow it. */
export function safeName(name: string): string {
  return name.replaceAll(/[^A-Za-z0-9_-]/g, "_").slice(0, 64) || "unknown";
}

/** `null` when the text is no JSON object. */
export function argumentsOf({ argumentsText }: ToolCall): JsonObject | null {
  const value = parseOr(argumentsText, () => null);
  return value instanceof Map ? value : null;
}

/** The JSON in a text; where there is none, what `otherwise` gives, which is thrown when it is an error. */
function parseOr(text: string, otherwise: () => Error | null): JsonValue {
  try {
    return parseJson(text);
  } catch (error) {
    if (!(error instanceof JsonSyntaxError)) throw error;
    const problem = otherwise();
    if (problem !== null) throw problem;
    return null;
  }
}

type Field = JsonValue | undefined;

/** `unreadable`: what continues "its answer ...". `refused`: some gateways put the status of the server behind them into a 200. */
function readCompletion(
  body: string,
  fail: { readonly refused: (status: number) => Error; readonly unreadable: (problem: string) => Error },
) {
  const answer = asObject(parseOr(body, () => fail.unreadable("is not JSON")));
  const fault = answer.get("error") ?? null;
  if (fault !== null) {
    const status = asObject(fault).get("code");
    const isStatus = typeof status === "number" && status >= 400 && status < 600;
    throw isStatus ? fail.refused(status) : fail.unreadable("is an error");
  }
  const choice = asObject(asList(answer.get("choices"))[0]);
  const message = choice.get("message");
  if (!(message instanceof Map)) throw fail.unreadable('has no "choices[0].message"');
  const usage = asObject(answer.get("usage"));
  return {
    text: textOf(message.get("content")),
    reasoning: reasoningOf(message),
    toolCalls: asList(message.get("tool_calls")).map(readCall),
    isCutOff: choice.get("finish_reason") === "length",
    tokens: { input: asCount(usage.get("prompt_tokens")), output: asCount(usage.get("completion_tokens")) },
  };
}

/** The text of a content: a string, or the text parts of a list; "" when there are none (a refusal, an empty reply). */
function textOf(content: Field): string {
  return typeof content === "string"
    ? content
    : partsOf(content, (type) => type === null || /^(output_)?text$/.test(type));
}

/** The joined text of the parts of a list that have the right types. Mistral's thinking is a list itself. */
function partsOf(content: Field, isRight: (type: string | null) => boolean): string {
  const texts = asList(content).map((one) => {
    const part = asObject(one);
    const type = part.get("type") ?? null;
    if (type !== null && typeof type !== "string") return "";
    if (!isRight(type)) return "";
    const said = part.get("text") ?? part.get("thinking") ?? part.get("reasoning") ?? part.get("summary");
    return typeof said === "string" ? said : partsOf(said, () => true);
  });
  return texts.join("");
}

/**
 * vLLM, SGLang and DeepSeek say `reasoning_content`, OpenRouter says `reasoning`, or `reasoning_details`, Ollama `thinking`; others have
 * parts of the content for it. `null`: none.
 */
function reasoningOf(message: JsonObject): string | null {
  for (const name of ["reasoning_content", "reasoning", "thinking"]) {
    const text = message.get(name);
    if (typeof text === "string" && text !== "") return text;
  }
  const isThought = (type: string | null): boolean => type !== null && /think|thought|reason/.test(type);
  const text = partsOf(message.get("reasoning_details"), () => true) || partsOf(message.get("content"), isThought);
  return text === "" ? null : text;
}

function readCall(call: JsonValue): ChatToolCall {
  const body = asObject(asObject(call).get("function"));
  const [id, name] = [asObject(call).get("id"), body.get("name")];
  const given = body.get("arguments") ?? "";
  const text = typeof given === "string" ? given : dumpJson(given);
  return {
    id: typeof id === "string" && id !== "" ? id : null,
    name: typeof name === "string" ? name : "",
    // Servers write nothing for a tool without arguments.
    argumentsText: text === "" ? "{}" : text,
  };
}

function asObject(value: Field): JsonObject {
  return value instanceof Map ? value : new Map();
}

function asList(value: Field): readonly JsonValue[] {
  return Array.isArray(value) ? value : [];
}

function asCount(value: Field): number | null {
  const count = value instanceof JsonFloat ? value.value : value;
  return typeof count === "number" && Number.isFinite(count) && count >= 0 ? count : null;
}
