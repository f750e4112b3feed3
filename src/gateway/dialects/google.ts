// Google's Gemini API: POST /v1beta/models/<model>:generateContent, :streamGenerateContent (with
// `alt=sse` as events, otherwise as one JSON array) and :countTokens. The formats follow requests of
// @google/genai 2, which also reads the answers, and the public reference of the API.

import { z } from "zod";
import type { Message } from "../../core/index.ts";
import {
  type AnswerHead,
  type AnswerStream,
  type Dialect,
  endingOf,
  eventFraming,
  type GatewayAnswer,
  GatewayError,
  type GatewayErrorStatus,
  type GatewayRequest,
} from "../request.ts";
import { constraintIn } from "./constraints.ts";
import {
  AssistantBuilder,
  chosenTools,
  limitSchema,
  longList,
  makeTool,
  optional,
  readText,
  requestOf,
  stopSchema,
  type ToolChoice,
  unknownTool,
  withRaw,
} from "./fields.ts";
import { camelNames, isFields, listOf } from "./google-names.ts";
import { jsonSchemaOf } from "./google-schema.ts";
import { checkFields, readBody, unsupported } from "./request-fields.ts";

/** An object with camel-case names. */
const named = <T extends z.ZodRawShape>(shape: T) => z.preprocess(camelNames, z.object(shape));
/** Like `named`, with the names of its other fields that have a value as `otherFields`. */
const namedWithOthers = <T extends z.ZodRawShape>(shape: T) =>
  z.preprocess(
    (value) => {
      const fields = camelNames(value);
      if (!isFields(fields)) return fields;
      const names = Object.keys(fields).filter((name) => !Object.hasOwn(shape, name));
      return { ...fields, otherFields: names.filter((name) => (fields[name] ?? null) !== null) };
    },
    z.object({ ...shape, otherFields: z.array(z.string()) }),
  );
/** A list, or its only item without brackets. */
const many = <T extends z.ZodType>(item: T) => z.preprocess(listOf, z.array(item));

const callSchema = named({ id: optional(z.string()), name: z.string().min(1), args: z.unknown().optional() });
const resultSchema = named({
  id: optional(z.string()),
  name: optional(z.string()),
  response: z.unknown().optional(),
  parts: optional(z.array(z.unknown())),
});
/** One of the other fields of a part may hold what a model of text cannot read. */
const partSchema = namedWithOthers({
  text: optional(z.string()),
  thought: optional(z.boolean()),
  functionCall: optional(callSchema),
  functionResponse: optional(resultSchema),
});
type Part = z.infer<typeof partSchema>;
const contentSchema = named({ role: optional(z.string()), parts: optional(many(partSchema)) });
type Content = z.infer<typeof contentSchema>;
const declarationSchema = named({
  name: z.string().min(1),
  description: optional(z.string()),
  parameters: z.unknown().optional(),
  parametersJsonSchema: z.unknown().optional(),
});
const toolSchema = namedWithOthers({ functionDeclarations: optional(many(declarationSchema)) });
type Tools = z.infer<typeof toolSchema>;

const bodySchema = z.object({
  contents: longList(contentSchema).min(1),
  systemInstruction: optional(contentSchema),
  tools: optional(longList(toolSchema)),
  toolConfig: optional(z.object({ functionCallingConfig: z.unknown().optional() })),
  generationConfig: optional(
    z.object({
      maxOutputTokens: limitSchema,
      stopSequences: stopSchema,
      thinkingConfig: optional(named({ includeThoughts: optional(z.boolean()) })),
    }),
  ),
});

/** The part of a request that is in its path and its query. */
export type GooglePath = {
  readonly model: string;
  readonly isStreamed: boolean;
  /** True for events, false for a JSON array. */
  readonly hasEvents: boolean;
  readonly counts: boolean;
};

/** The dialect for requests to one path. */
export function googleDialect(path: GooglePath): Dialect {
  return {
    name: "google",
    lists: { contents: contentSchema, tools: toolSchema },
    framing: {
      contentType: path.hasEvents ? eventFraming.contentType : "application/json",
      // Clients try to parse a comment; both forms allow empty lines.
      keepAlive: "\n\n",
    },
    restate: (body) => restated(body, path),
    countBody: (totalTokens) => ({ totalTokens }),
    read: (body) => readRequest(body, path),
    whole: (answer, request) => responseText(answer, request, partsOf(answer, request), endOf(answer)),
    stream: (head, request) => answerStream(head, request, path),
    error: errorBody,
  };
}

function restated(body: unknown, { counts }: GooglePath): unknown {
  const given = camelNames(body);
  const whole = isFields(given) ? given["generateContentRequest"] : undefined;
  const isNested = counts && isFields(given) && isFields(whole);
  if (isNested && given["contents"] !== undefined) {
    const message = "Cannot read the request: contents and generateContentRequest both state the prompt; send one.";
    throw new GatewayError("invalid-request", message, { param: "contents" });
  }
  const fields = isNested ? camelNames(whole) : given;
  if (!isFields(fields)) return fields;
  const nested = ["generationConfig", "toolConfig"].map((name) => [name, camelNames(fields[name])]);
  const lists = ["contents", "tools"].map((name) => [name, listOf(fields[name])]);
  return { ...fields, ...Object.fromEntries([...nested, ...lists].filter(([, value]) => value !== undefined)) };
}

function readRequest(raw: unknown, { model, isStreamed }: GooglePath): GatewayRequest {
  const checked = checkFields("google", raw);
  const body = readBody(bodySchema, raw);
  const { maxOutputTokens, stopSequences, thinkingConfig } = body.generationConfig ?? {};
  const tools = body.tools ?? [];
  const choice = readCalling(body.toolConfig?.functionCallingConfig);
  const messages = [...readSystem(body.systemInstruction), ...readContents(body.contents)];
  if (messages.at(-1)?.role === "assistant") {
    const field = `contents.${body.contents.length - 1}`;
    throw unsupported(`${field} is the model's; an answer that is begun by the client is not the policy's`, field);
  }
  return requestOf(
    { model, stream: isStreamed },
    {
      ...checked,
      messages,
      tools: chosenTools(tools.flatMap(functionsOf), choice, []),
      mayCall: choice.mayCall,
      constraint: constraintIn("google", raw, choice),
      maxTokens: maxOutputTokens ?? null,
      stop: stopSequences ?? [],
      ignoredTools: tools.flatMap(({ otherFields }) => otherFields).length,
      includesThoughts: thinkingConfig?.includeThoughts ?? false,
    },
  );
}

function functionsOf({ functionDeclarations = [] }: Tools) {
  return functionDeclarations.map(({ name, description, parameters, parametersJsonSchema }) =>
    makeTool({ name, description, parameters: parametersJsonSchema ?? jsonSchemaOf(parameters) }),
  );
}

const callingSchema = named({
  mode: optional(z.string()),
  allowedFunctionNames: optional(z.array(z.string())),
});

function readCalling(config: unknown): ToolChoice {
  const field = "toolConfig.functionCallingConfig";
  const { mode = "AUTO", allowedFunctionNames: names = [] } = readBody(callingSchema, config ?? {}, field.split("."));
  const allowed = names.length === 0 ? null : new Set(names);
  switch (mode.toUpperCase()) {
    case "MODE_UNSPECIFIED":
    case "AUTO":
    case "VALIDATED":
      return { mayCall: true, allowed, mustCall: null, field };
    case "NONE":
      return { mayCall: false, allowed: null, mustCall: null, field };
    case "ANY":
      return { mayCall: true, allowed: null, mustCall: allowed === null ? "any" : [...allowed], field };
    default:
      throw unsupported(`${field}.mode is not known; send AUTO, NONE, ANY or VALIDATED`, field);
  }
}

function readSystem(system: Content | undefined): Message[] {
  const parts = system?.parts ?? [];
  if (parts.length === 0) return [];
  return [{ role: "system", content: textsOf(parts, "systemInstruction.parts") }];
}

/**
 * A stream is echoed as one content for each of its events, so contents of the model in a row are
 * one message, and their texts follow each other without a break.
 */
function readContents(contents: readonly Content[]): Message[] {
  const messages: Message[] = [];
  const assistant = new AssistantBuilder("");
  const close = (): void => {
    const message = assistant.take();
    if (message !== null) messages.push(message);
  };
  for (const [index, { role = "user", parts = [] }] of contents.entries()) {
    const field = `contents.${index}.parts`;
    if (role === "model") {
      assistant.text("");
      for (const part of parts) readModelPart(part, assistant, field);
      continue;
    }
    // "function" and "tool" are older names for the role of results.
    if (!["user", "function", "tool"].includes(role)) {
      const place = `contents.${index}.role`;
      throw unsupported(`${place} is neither "user" nor "model"; send instructions as systemInstruction`, place);
    }
    close();
    const texts = parts.filter(({ functionResponse }) => functionResponse === undefined);
    for (const { functionResponse } of parts) {
      if (functionResponse !== undefined) messages.push(resultOf(functionResponse, field));
    }
    if (texts.length > 0 || parts.length === 0) messages.push({ role: "user", content: textsOf(texts, field) });
  }
  close();
  return messages;
}

function readModelPart(part: Part, assistant: AssistantBuilder, field: string): void {
  const { functionCall, text, thought } = part;
  if (functionCall !== undefined) {
    const { id = "", name, args } = functionCall;
    assistant.call({ id, name, argumentsText: JSON.stringify(args ?? {}) });
  } else if (thought === true) assistant.reasoning(text ?? "");
  else assistant.text(textsOf([part], field));
}

function resultOf({ id, name, response, parts = [] }: z.infer<typeof resultSchema>, field: string): Message {
  if (parts.length > 0) throw unsupported("parts of a functionResponse cannot be shown to a model of text", field);
  return { role: "tool", content: resultText(response, name), name: name ?? unknownTool, callId: id ?? null };
}

/** Text of a result: the output of the function without what only wraps it, as JSON unless it is text. */
function resultText(response: unknown, name: string | undefined): string {
  const output = outputIn(response, name);
  return typeof output === "string" ? output : JSON.stringify(output ?? {});
}

/**
 * A response is always an object. The API's reference names its field "output", Google's library for
 * Python writes "result", and the AI SDK "content" beside the name of the function.
 */
function outputIn(response: unknown, name: string | undefined): unknown {
  if (!isFields(response)) return response;
  const [first = "", second = null, ...others] = Object.keys(response);
  if (second === null) return first === "output" || first === "result" ? response[first] : response;
  const isNamed = others.length === 0 && response["name"] === name && Object.hasOwn(response, "content");
  return isNamed ? response["content"] : response;
}

/** Fields of a part that are left out. */
const silentFields = new Set(["thoughtSignature", "partMetadata"]);

function textsOf(parts: readonly Part[], field: string): string {
  const texts = parts.map((part) => {
    const misplaced = part.functionCall !== undefined ? "functionCall" : part.functionResponse && "functionResponse";
    const other = part.otherFields.find((kind) => !silentFields.has(kind));
    return { type: part.text === undefined ? (misplaced ?? other ?? "text") : "text", text: part.text };
  });
  return readText(texts, field);
}

/** The parts of an answer as JSON texts; at least one, because clients drop a content without parts. */
function partsOf({ action }: GatewayAnswer, { includesThoughts }: GatewayRequest): readonly string[] {
  const { reasoning, content, toolCalls } = action;
  const thoughts = includesThoughts && reasoning !== null && reasoning !== "" ? [textPart("reasoning", reasoning)] : [];
  const texts = content === "" && toolCalls.length > 0 ? [] : [textPart("content", content)];
  return [...thoughts, ...texts, ...toolCalls.map(callPart)];
}

function textPart(type: "reasoning" | "content", text: string): string {
  return JSON.stringify(type === "reasoning" ? { text, thought: true } : { text });
}

/** Arguments are sent unchanged: JavaScript would change a large integer when it formats them again. */
function callPart({ id, name, argumentsText }: GatewayAnswer["action"]["toolCalls"][number]): string {
  return `{"functionCall":${withRaw({ id, name }, "args", argumentsText)}}`;
}

type End = Pick<GatewayAnswer, "usage"> & { readonly finishReason: "STOP" | "MAX_TOKENS" };

function endOf(answer: GatewayAnswer): End {
  return { usage: answer.usage, finishReason: endingOf(answer) === "length" ? "MAX_TOKENS" : "STOP" };
}

/** One response, or one event of a stream; `end`: `null` before the end. */
function responseText(head: AnswerHead, { model }: GatewayRequest, parts: readonly string[], end: End | null): string {
  const content = withRaw({ role: "model" }, "parts", `[${parts.join()}]`);
  const about = end === null ? { index: 0 } : { index: 0, finishReason: end.finishReason };
  const response = {
    ...(end === null ? {} : { usageMetadata: usageOf(end.usage) }),
    modelVersion: model,
    responseId: `${head.idPrefix}-${head.call}`,
  };
  return withRaw(response, "candidates", `[${withRaw(about, "content", content)}]`);
}

function usageOf({ promptTokens, cachedTokens, sampledTokens }: GatewayAnswer["usage"]): object {
  return {
    promptTokenCount: promptTokens,
    candidatesTokenCount: sampledTokens,
    totalTokenCount: promptTokens + sampledTokens,
    ...(cachedTokens === null ? {} : { cachedContentTokenCount: cachedTokens }),
  };
}

function answerStream(head: AnswerHead, request: GatewayRequest, { hasEvents }: GooglePath): AnswerStream {
  let isFirst = true;
  const event = (json: string): string => {
    const text = hasEvents ? `data: ${json}\r\n\r\n` : `${isFirst ? "[" : ",\r\n"}${json}`;
    isFirst = false;
    return text;
  };
  const close = hasEvents ? "" : "]";
  return {
    start: () => "",
    delta: ({ type, text }) => {
      if (type === "reasoning" && !request.includesThoughts) return "";
      return event(responseText(head, request, [textPart(type, text)], null));
    },
    end: (answer) => ({
      rest: answer.action.toolCalls.map((call) => event(responseText(head, request, [callPart(call)], null))).join(""),
      terminal: event(responseText(head, request, [textPart("content", "")], endOf(answer))) + close,
    }),
    error: (error) => event(JSON.stringify(errorBody(error))) + close,
  };
}

const statuses = {
  400: "INVALID_ARGUMENT",
  401: "UNAUTHENTICATED",
  403: "PERMISSION_DENIED",
  404: "NOT_FOUND",
  413: "INVALID_ARGUMENT",
  415: "INVALID_ARGUMENT",
  429: "RESOURCE_EXHAUSTED",
  500: "INTERNAL",
  503: "UNAVAILABLE",
} as const satisfies Record<GatewayErrorStatus, string>;

/** Clients shorten the conversation after "input token count exceeds the maximum". */
function errorBody({ code, status, message, param, retryAfterMs, context }: GatewayError): unknown {
  const tooLong =
    context === null
      ? message
      : `The input token count (${context.tokens}) exceeds the maximum number of tokens allowed (${context.most}).`;
  const said = code === "context-length" ? tooLong : message;
  const details = [
    ...(param === null ? [] : [detail("BadRequest", { fieldViolations: [{ field: param, description: said }] })]),
    ...(retryAfterMs === null ? [] : [detail("RetryInfo", { retryDelay: `${Math.ceil(retryAfterMs / 1000)}s` })]),
  ];
  return { error: { code: status, message: said, status: statuses[status], ...(details.length > 0 && { details }) } };
}

function detail(type: string, fields: object): object {
  return { "@type": `type.googleapis.com/google.rpc.${type}`, ...fields };
}
