// DeepSeek V4 and V4.1, which have no chat template: the prompts of vLLM 0.33.0 (`tokenizers/deepseek_v4.py`, `deepseek_v41.py` and the
// encoding modules that they call). Not here: images, response formats, and the classification tasks of the vendor's own services.

import { type Steps, stepItems } from "../../lib/steps.ts";
import { type JsonObject, JsonSyntaxError, type JsonValue, parseJson } from "../../python-semantics/json/index.ts";
import type { PromptEncoder, TemplateInput } from "../chat-template.ts";
import {
  assistantToken,
  bos,
  type DsmlTags,
  dsmlFamily,
  eos,
  thinkEnd,
  thinkStart,
  userToken,
  writeCalls,
  writeOpening,
  writeTools,
} from "./dsml.ts";
import {
  argumentsObject,
  callsOf,
  createEncoder,
  formatSentence,
  functionsOf,
  isTruthy,
  isUnlessGiven,
  placedMessages,
  type PlacedMessage,
  type PromptWriter,
  refuse,
  sentence,
  textOf,
  type VendorSentences,
} from "./prompt-encoder.ts";

/** Differences between the two versions. */
type Version = {
  readonly tags: DsmlTags;
  /** Token before system messages; "" if there is none. */
  readonly systemToken: string;
  /**
   * A system message after the first counts as a question, and a message of only tool results does
   * not.
   */
  readonly countsSystem: boolean;
  /** Sentence about the effort that precedes everything else in a conversation that thinks. */
  readonly effort: (value: JsonValue, sentences: VendorSentences) => string;
  readonly readArguments: (value: JsonValue) => JsonObject;
};

const v4: Version = {
  tags: { calls: "tool_calls", call: "invoke", parameter: "parameter" },
  systemToken: "",
  countsSystem: false,
  effort: (value, sentences) => {
    if (value === "low" || value === "minimal" || value === "medium") return "";
    return sentence(sentences, `REASONING_EFFORT_PROMPTS.${value === "max" ? "max" : "high"}`);
  },
  readArguments: argumentsObject,
};

const v41Efforts: ReadonlyMap<JsonValue, number> = new Map([
  ["low", 50],
  ["high", 75],
  ["xhigh", 75],
  ["max", 100],
]);

const v41: Version = {
  tags: { calls: " calls", call: " invoke", parameter: " parameter" },
  systemToken: "<｜System｜>",
  countsSystem: true,
  effort: (value, sentences) =>
    formatSentence(sentence(sentences, "REASONING_EFFORT_TEMPLATE"), new Map([["budget", String(budgetOf(value))]]))
      .map(({ text }) => text)
      .join(""),
  readArguments: tolerantArguments,
};

/** `sentences` holds `TOOLS_TEMPLATE` and, for an effort above low, `REASONING_EFFORT_PROMPTS`. */
export function createDeepseekV4Encoder(sentences: VendorSentences): PromptEncoder {
  return create({ name: "deepseek-v4", parser: "deepseekv4", reasoning: "deepseek-v4", version: v4, sentences });
}

/** `sentences` holds `TOOLS_TEMPLATE` and, for conversations that think, `REASONING_EFFORT_TEMPLATE`. */
export function createDeepseekV41Encoder(sentences: VendorSentences): PromptEncoder {
  return create({ name: "deepseek-v4.1", parser: "deepseekv41", reasoning: "deepseek-v41", version: v41, sentences });
}

type Parts = {
  readonly name: string;
  readonly parser: string;
  readonly reasoning: string;
  readonly version: Version;
  readonly sentences: VendorSentences;
};

function create({ name, parser, reasoning, version, sentences }: Parts): PromptEncoder {
  return createEncoder({
    family: { ...dsmlFamily(parser), name, reasoningParser: reasoning },
    variables: ["drop_thinking", "enable_thinking", "reasoning_effort", "thinking"],
    encode: (input, writer) => encode(input, writer, { version, sentences }),
  });
}

/** A message, or the run of questions and tool results that one message is made of. */
type Block = PlacedMessage & { readonly parts: readonly Part[] };

type Part = {
  readonly isResult: boolean;
  readonly callId: string;
  readonly text: string;
  readonly place: number | null;
};

function* encode(
  { messages, tools, kwargs, addGenerationPrompt: isPrompt }: TemplateInput,
  writer: PromptWriter,
  { version, sentences }: Pick<Parts, "version" | "sentences">,
): Steps<void> {
  const { tags, systemToken } = version;
  const functions = functionsOf(tools);
  const placed = placedMessages(messages);
  if (version.countsSystem) placed.forEach(checkRole);
  if (functions.length > 0 && !placed.some(({ role }) => role === "system")) {
    placed.unshift({ place: null, role: "system", wire: new Map() });
  }
  const withTools = functions.length === 0 ? undefined : placed.find(({ role }) => role === "system");
  const { isThinking, effort } = thinkingOf(kwargs, version);
  const drops = functions.length === 0 && isUnlessGiven(kwargs, "drop_thinking");
  const blocks = without(sortResults(mergeQuestions(placed)), { version, drops: isThinking && drops });
  const lastUser = lastQuestion(blocks, version);
  writer.write(bos, null);
  const effortText = isThinking && blocks.length > 0 ? version.effort(effort, sentences) : "";
  if (blocks[0]?.role === "system" || effortText !== "") writer.write(systemToken, null);
  writer.write(effortText, null);
  for (const [index, block] of blocks.entries()) {
    if (index % stepItems === stepItems - 1) yield;
    const { role, place, wire } = block;
    if (role === "system") {
      if (index > 0) writer.write(systemToken, place);
      writer.quote(textOf(wire, "content"), place);
      if (place === withTools?.place) {
        writer.write("\n\n", place);
        writeTools(writer, { paragraph: sentence(sentences, "TOOLS_TEMPLATE"), functions, place }, tags);
      }
    } else if (role === "user") {
      writeQuestion(writer, block);
    } else if (role === "developer") {
      const content = textOf(wire, "content");
      if (content === "") refuse("ValueError", "it has an empty message of role developer");
      writer.write(userToken, place);
      writer.quote(content, place);
    } else if (role === "assistant") {
      if (isThinking && (!drops || index > lastUser)) {
        writer.quote(textOf(wire, "reasoning_content"), place);
        writer.write(thinkEnd, place);
      }
      writer.quote(textOf(wire, "content"), place);
      writeCalls(writer, { calls: callsOf(wire), place }, { tags, read: version.readArguments });
      writer.write(eos, place);
    } else {
      refuse("ValueError", `it has a message of role "${role}"`);
    }
    if (!opensAnswer(blocks, index, version)) continue;
    const isOpen = isThinking && (!drops || index >= lastUser);
    writeOpening(writer, assistantToken + (isOpen ? thinkStart : thinkEnd), { messages: blocks, index, isPrompt });
  }
}

function checkRole({ role, wire }: PlacedMessage): void {
  const known = ["system", "developer", "user", "assistant", "tool"];
  if (!known.includes(role)) refuse("ValueError", `it has a message of role "${role}"`);
  for (const key of ["content", "reasoning_content"]) {
    if (!textOf(wire, key).includes(imagePlaceholder)) continue;
    refuse("ValueError", `the ${key} of a message spells out the token of an image, "${imagePlaceholder}"`);
  }
}

const imagePlaceholder = "<｜deepseek_image｜>";

function thinkingOf(
  kwargs: JsonObject,
  { countsSystem: isV41 }: Version,
): { readonly isThinking: boolean; readonly effort: JsonValue } {
  const isSet = kwargs.has("thinking") || kwargs.has("enable_thinking");
  const isOn = !isSet || isTruthy(kwargs.get("thinking")) || isTruthy(kwargs.get("enable_thinking"));
  const given = kwargs.get("reasoning_effort") ?? null;
  const effort = given === "none" || given === null ? "high" : given;
  if (isV41) budgetOf(effort);
  return { isThinking: isOn && given !== "none", effort };
}

/** The number of V4.1 for an effort. Refuses unknown efforts. */
function budgetOf(effort: JsonValue): number {
  const budget = typeof effort === "number" ? effort : v41Efforts.get(effort);
  if (budget !== undefined && budget >= 1 && budget <= 100) return budget;
  return refuse("ValueError", "reasoning_effort is not low, high, xhigh, max, none or a whole number from 1 to 100");
}

/**
 * Reads arguments written as JSON text, or as JSON text in JSON text; anything else becomes one
 * argument.
 */
function tolerantArguments(value: JsonValue): JsonObject {
  let read = value;
  for (let depth = 0; depth < 2 && typeof read === "string"; depth++) {
    try {
      read = parseJson(read);
    } catch (error) {
      if (!(error instanceof JsonSyntaxError)) throw error;
      break;
    }
  }
  return read instanceof Map ? read : new Map([["arguments", value]]);
}

/** Merges consecutive questions and tool results into one message. */
function mergeQuestions(messages: readonly PlacedMessage[]): readonly Block[] {
  const blocks: Block[] = [];
  let parts: Part[] = [];
  for (const message of messages) {
    const { role, place, wire } = message;
    if (role !== "user" && role !== "tool") {
      blocks.push({ ...message, parts: [] });
      continue;
    }
    const id = wire.get("tool_call_id");
    const part = {
      isResult: role === "tool",
      callId: typeof id === "string" ? id : "",
      text: textOf(wire, "content"),
      place,
    };
    if (blocks.at(-1)?.role === "user") {
      parts.push(part);
      continue;
    }
    parts = [part];
    blocks.push({ ...message, role: "user", parts });
  }
  return blocks;
}

/**
 * Sorts results by the order of the latest calls; a result that names none of them counts as the
 * first one's.
 */
function sortResults(blocks: readonly Block[]): readonly Block[] {
  let order = new Map<string, number>();
  return blocks.map((block) => {
    const { role, wire, parts } = block;
    if (role === "assistant") {
      const calls = callsOf(wire);
      if (calls.length > 0) order = new Map(calls.flatMap(({ id }, place) => (id === "" ? [] : [[id, place]])));
    }
    const placeOf = ({ callId }: Part): number => order.get(callId) ?? 0;
    const results = parts.filter(({ isResult }) => isResult).toSorted((a, b) => placeOf(a) - placeOf(b));
    let next = 0;
    return { ...block, parts: parts.map((part) => (part.isResult ? results[next++]! : part)) };
  });
}

/** Dropping the thoughts of earlier answers also drops the messages of other roles before the last question. */
function without(
  blocks: readonly Block[],
  { version, drops }: { readonly version: Version; readonly drops: boolean },
): readonly Block[] {
  if (!drops) return blocks;
  const lastUser = lastQuestion(blocks, version);
  const kept = ["user", "system", "assistant"];
  return blocks.filter(({ role }, index) => kept.includes(role) || index >= lastUser);
}

function lastQuestion(blocks: readonly Block[], { countsSystem }: Version): number {
  return blocks.findLastIndex(({ role, parts }, index) => {
    if (role === "user") return !countsSystem || parts.some(({ isResult }) => !isResult);
    return role === "developer" || (countsSystem && role === "system" && index > 0);
  });
}

function writeQuestion(writer: PromptWriter, { parts }: Block): void {
  parts.forEach(({ isResult, text, place }, index) => {
    writer.write(index === 0 ? userToken : "\n\n", place);
    if (isResult) writer.write("<tool_result>", place);
    writer.quote(text, place);
    if (isResult) writer.write("</tool_result>", place);
  });
}

/** True if the header of an answer is written after the message. */
function opensAnswer(blocks: readonly Block[], index: number, { countsSystem }: Version): boolean {
  const { role } = blocks[index]!;
  const next = blocks[index + 1]?.role;
  if (next !== undefined && next !== "assistant") return false;
  return role === "user" || role === "developer" || (role === "system" && (!countsSystem || index > 0));
}
