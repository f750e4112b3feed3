// The parsers of a template that is not in the table. For calls: a parser that reads back the very call that the template has
// written, else one whose markers all stand in the template. For reasoning: by the tags that stand in the template.

import { toolFromDefinition } from "../../core/index.ts";
import { dumpJson, fromPlain, JsonSyntaxError, parseJson } from "../../python-semantics/json/index.ts";
import { type ReasoningParser, reasoningParser, type ToolCallParser, toolCallParser, toolCallParserNames } from "../../parsers/index.ts"; // prettier-ignore
import {
  callMessage,
  probeArguments,
  probeContents,
  probeTool,
  question,
  type TemplateProber,
} from "./template-prober.ts";

/** Tried first: several parsers read the same syntax. */
const common = [
  "qwen25",
  "qwen3_coder",
  "glm47",
  "glm45",
  "kimi_k2",
  "deepseekv31",
  "deepseekv3",
  "llama3",
  "mistral",
  "mistral_ids",
];
/** For templates that write no calls, or in a syntax that no parser reads. */
const usual = "qwen25";

/** The call of the probe tool as an action: without what the prompt has opened and what closes the turn. "": none is written. */
export function writtenCall(
  prober: TemplateProber,
  turns: { readonly endToken: string | null; readonly closing: string },
): string {
  const render = (messages: readonly object[], addGenerationPrompt: boolean): string =>
    prober.text(messages, { withTool: true, addGenerationPrompt });
  const prompt = render([question], true);
  const text = [callMessage(), callMessage(JSON.stringify(probeArguments))]
    .map((message) => render([question, message], false))
    .find((rendered) => rendered.includes("probe_key"));
  if (text === undefined) return "";
  const opened = text.startsWith(prompt) ? prompt.length : endOf(text, probeContents.question);
  const action = text.slice(opened);
  const closed = (turns.endToken ?? "") + turns.closing;
  return action.endsWith(closed) ? action.slice(0, action.length - closed.length) : action;
}

export function detectToolCallParser(call: string, chatTemplate: string): ToolCallParser {
  const names = [...common, ...toolCallParserNames.filter((name) => !common.includes(name))];
  const parsers = names.map((name) => toolCallParser(name));
  const reading = parsers.find((parser) => readsProbe(parser, call));
  if (reading !== undefined) return reading;
  const marked = parsers.filter(
    ({ markers }) => markers.length > 0 && markers.every((marker) => chatTemplate.includes(marker)),
  );
  const weight = ({ markers }: ToolCallParser): number => markers.join("").length;
  return marked.toSorted((left, right) => weight(right) - weight(left))[0] ?? toolCallParser(usual);
}

function readsProbe(parser: ToolCallParser, text: string): boolean {
  const { calls } = parser.parse(text, { tools: [toolFromDefinition(probeTool)] });
  return calls.length === 1 && calls[0]!.name === "probe_tool" && isProbe(calls[0]!.parameters);
}

function isProbe(parameters: string): boolean {
  try {
    return dumpJson(parseJson(parameters)) === dumpJson(fromPlain(probeArguments));
  } catch (error) {
    if (error instanceof JsonSyntaxError) return false;
    throw error;
  }
}

/** Closing tags, the rarer ones first, with the parser that reads them. */
const reasoningTags: readonly (readonly [tag: string, parser: string])[] = [
  ["<|channel|>analysis", "gpt-oss"],
  ["</mm:think>", "minimax-m3"],
  ["</seed:think>", "seed_oss"],
  ["◁/think▷", "kimi"],
  ["</think>", "qwen3"],
];

/** `null`: the template knows no tags of reasoning. */
export function detectReasoningParser(chatTemplate: string): ReasoningParser | null {
  const found = reasoningTags.find(([tag]) => chatTemplate.includes(tag));
  return found === undefined ? null : reasoningParser(found[1]);
}

function endOf(text: string, part: string): number {
  const at = text.lastIndexOf(part);
  return at === -1 ? 0 : at + part.length;
}
