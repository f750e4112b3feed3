// Inkling, which has no chat template: the prompt of vLLM 0.33.0 (`renderers/inkling_encoding.py`,
// with the efforts that its renderer names). Not here: images and audio.

import { type Steps, stepItems } from "../../lib/steps.ts";
import { pythonStrip, roundFloat } from "../../python-semantics/index.ts";
import { dumpJson, JsonFloat, type JsonObject, type JsonValue } from "../../python-semantics/json/index.ts";
import { reasoningParser } from "../../parsers/on-demand.ts";
import { restateCalls } from "../calls-in-history.ts";
import type { PromptEncoder, TemplateInput } from "../chat-template.ts";
import { familyDefaults, type RendererFamily } from "../renderer-family.ts";
import {
  argumentsObject,
  callsOf,
  createEncoder,
  isTruthy,
  type PlacedMessage,
  placedMessages,
  type PromptWriter,
  refuse,
  textOf,
} from "./prompt-encoder.ts";

const modelToken = "<|message_model|>";
const messageEnd = "<|end_message|>";
const samplingEnd = "<|content_model_end_sampling|>";
const textBlock = "<|content_text|>";
const thoughtBlock = "<|content_thinking|>";
const callBlock = "<|content_invoke_tool_json|>";

const roleTokens: ReadonlyMap<string, string> = new Map([
  ["user", "<|message_user|>"],
  ["assistant", modelToken],
  ["system", "<|message_system|>"],
  ["developer", "<|message_system|>"],
  ["tool", "<|message_tool|>"],
]);

const restateAlways = restateCalls("inkling", { always: true });

const family: RendererFamily = {
  ...familyDefaults,
  name: "inkling",
  startToken: "<|message_user|>",
  endToken: samplingEnd,
  stopTokens: [samplingEnd, "<|endoftext|>"],
  reasoningParser: "inkling",
  toolCallParser: "inkling",
  spellings: new Map([["content_xml", ["<|content_xml|>", "<|unused_200024|>"]]]),
  actionFrame: modelToken,
  restate: (messages) =>
    restateAlways(
      messages.map((message) => {
        if (message.role !== "assistant" || message.reasoning !== null || message.toolCalls.length > 0) return message;
        if (!message.content.includes("<|content_")) return message;
        // The prompt opened the first block.
        const { reasoning, normalText } = reasoningParser("inkling").split(modelToken + message.content);
        return { ...message, content: normalText, reasoning: reasoning === "" ? null : reasoning };
      }),
    ),
};

export function createInklingEncoder(): PromptEncoder {
  return createEncoder({ family, variables: ["reasoning_effort"], encode });
}

const efforts: ReadonlyMap<JsonValue, number> = new Map([
  ["none", 0],
  ["minimal", 0.1],
  ["low", 0.2],
  ["medium", 0.7],
  ["high", 0.9],
  ["xhigh", 0.99],
  ["max", 0.99],
]);
const defaultEffort = 0.9;
const maxEffort = 0.99;

function* encode(
  { messages, tools, kwargs, addGenerationPrompt, context }: TemplateInput,
  writer: PromptWriter,
): Steps<void> {
  const placed = placedMessages(messages);
  const declared = [...listOf(tools, "tools"), ...placed.flatMap(ownTools)];
  if (declared.length > 0) {
    const xmlBlock = context.specialTokens.get("content_xml");
    const opening = typeof xmlBlock === "string" ? xmlBlock : "<|content_xml|>";
    writer.write(`<|message_system|>tool_declare${opening}`, null);
    writer.writeTools(canonicalJson(declared.map(declarationOf)), null);
    writer.write(messageEnd, null);
  }
  let effort = effortText(kwargs.get("reasoning_effort") ?? null);
  const callNames = new Map<string, string>();
  for (const [index, message] of placed.entries()) {
    if (index % stepItems === stepItems - 1) yield;
    const { role, place, wire } = message;
    const opening =
      roleTokens.get(role) ?? refuse("ValueError", `it has a message of role "${role}", which the format lacks`);
    if (role !== "system" && role !== "developer") {
      writer.write(effort, null);
      effort = "";
    }
    const write = (block: string, text: string, author = ""): void => {
      writer.write(opening, place);
      writer.quote(author, place);
      writer.write(block, place);
      writer.quote(text, place);
      writer.write(messageEnd, place);
    };
    if (role === "tool") {
      const name = textOf(wire, "name");
      write(textBlock, textsOf(message).join(""), name === "" ? callNames.get(textOf(wire, "tool_call_id")) : name);
      continue;
    }
    if (role === "assistant") {
      const thought = textOf(wire, "reasoning") || textOf(wire, "reasoning_content");
      if (thought !== "") write(thoughtBlock, thought);
    }
    for (const text of textsOf(message)) write(textBlock, text);
    if (role !== "assistant") continue;
    for (const call of callsOf(wire)) {
      if (call.id !== "") callNames.set(call.id, call.name);
      const given = isTruthy(call.arguments) ? argumentsOf(call.arguments) : new Map();
      write(callBlock, `{"name":${dumpJson(call.name)},"args":${canonicalJson(given)}}`, call.name);
    }
    writer.write(samplingEnd, place);
  }
  writer.write(effort, null);
  if (addGenerationPrompt) writer.write(modelToken, null);
}

/** The block that states the effort; "" for a name that the server does not know. */
function effortText(given: JsonValue): string {
  const value =
    given === null ? defaultEffort : given instanceof JsonFloat ? given.value : (efforts.get(given) ?? given);
  if (typeof value !== "number" && typeof value !== "bigint") return "";
  const effort = Number(value);
  if (!(effort >= 0 && effort <= maxEffort)) refuse("ValueError", "reasoning_effort is not from 0.0 to 0.99");
  const rounded = String(Number(roundFloat(effort, 2).toFixed(2)));
  const text = rounded === "0" ? "0.0" : rounded;
  return `<|message_system|>${textBlock}Thinking effort level: ${text}${messageEnd}`;
}

/** Tools that a message of role developer declares. */
const ownTools = ({ role, wire }: PlacedMessage): readonly JsonValue[] =>
  role === "developer" ? listOf(wire.get("tools"), "tools of a message") : [];

function listOf(value: JsonValue | undefined, what: string): readonly JsonValue[] {
  if (!isTruthy(value)) return [];
  return Array.isArray(value) ? value : refuse("TypeError", `the ${what} are not a list`);
}

function declarationOf(tool: JsonValue): JsonObject {
  const body = tool instanceof Map ? tool.get("function") : undefined;
  const name = body instanceof Map ? body.get("name") : undefined;
  if (!(tool instanceof Map) || !(body instanceof Map) || name === undefined) {
    return refuse("KeyError", "a tool has no name");
  }
  const [description, parameters] = [body.get("description"), body.get("parameters")];
  return new Map<string, JsonValue>([
    ["description", isTruthy(description) ? description! : ""],
    ["name", name],
    ["parameters", isTruthy(parameters) ? parameters! : new Map()],
    ["type", tool.has("type") ? tool.get("type")! : "function"],
  ]);
}

/** Arguments as an object; text of only blanks counts as none. */
function argumentsOf(value: JsonValue): JsonObject {
  return typeof value === "string" && pythonStrip(value) === "" ? new Map() : argumentsObject(value);
}

/** The texts of a message, one a block. Refuses parts that are not text. */
function textsOf({ role, wire }: PlacedMessage): readonly string[] {
  const content = wire.get("content") ?? null;
  if (content === null || content === "") return [];
  if (typeof content === "string") return [content];
  if (!Array.isArray(content)) return refuse("TypeError", "the content of a message is neither text nor a list");
  return content.map((part: JsonValue) => {
    if (typeof part === "string") return part;
    const type = part instanceof Map ? (part.get("type") ?? null) : undefined;
    if (!(part instanceof Map) || !(type === null || type === "text" || type === "input_text")) {
      return refuse("ValueError", `a message of role "${role}" has a part that is not text`);
    }
    const text = part.get("text");
    return typeof text === "string" ? text : "";
  });
}

/** JSON with sorted keys and without blanks. Refuses numbers that JSON does not have. */
function canonicalJson(value: JsonValue): string {
  checkFinite(value);
  return dumpJson(value, { sortKeys: true, separators: [",", ":"] });
}

function checkFinite(value: JsonValue): void {
  if (value instanceof JsonFloat && !Number.isFinite(value.value)) {
    refuse("ValueError", "it has a number that JSON does not have");
  }
  if (Array.isArray(value)) value.forEach(checkFinite);
  if (value instanceof Map) for (const item of value.values()) checkFinite(item);
}
