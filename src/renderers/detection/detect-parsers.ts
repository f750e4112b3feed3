// The parsers of a template that is not in the table. For calls: a parser that reads back the
// template's own call, unless the prompt requests calls that this parser does not read; else one
// whose markers all occur in the template. For reasoning: detected from the tags in the template.

import { type Tokenizer, toolFromDefinition } from "../../core/index.ts";
import { dumpJson, fromPlain, JsonSyntaxError, parseJson } from "../../python-semantics/json/index.ts";
import type { RendererFamily } from "../renderer-family.ts";
import { spelledCall, type ToolCallParser, toolCallParser, toolCallParserNames } from "../../parsers/on-demand.ts";
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
  "hermes",
  "qwen3_coder",
  "glm47",
  "glm45",
  "kimi_k2",
  "deepseekv31",
  "deepseekv3",
  "llama3",
  "mistral",
  "mistral_ids",
  "jamba",
];
/**
 * Parser for templates that write no calls and show no tools: the guidelines must show a format,
 * and most models know this one.
 */
const assumed = "qwen25";

/**
 * Strings that only templates of one format write, for templates that describe calls without
 * writing one.
 */
const signs: readonly (readonly [text: string, parser: string])[] = [
  ["<|tool_list_start|>", "lfm2"],
  ["<|START_TEXT|>", "cohere_command4"],
  ["<rfl:parameter ", "beam"],
];

/** Strings that only templates of one format write, for parsers that read the same call. */
const relatives: readonly (readonly [text: string, parser: string])[] = [
  ["<|role_end|>", "ling3"],
  ["</assistant>", "poolside_v1"],
  ["<|Bot|>", "spark25"],
  ["<|extra_4|>", "hunyuan_a13b"],
  ["<|START_TEXT|>", "cohere_command4"],
  ["<|START_RESPONSE|>", "cohere_command3"],
];

/**
 * The call of the probe tool as an action, in the first form that a parser reads; two calls if the
 * template closes only those. Excludes the prompt's opening and the token that closes the turn. ""
 * if none is written.
 */
export function writtenCall(
  prober: TemplateProber,
  turns: { readonly endToken: string | null; readonly closing: string },
): string {
  const render = (messages: readonly object[], addGenerationPrompt: boolean): string =>
    prober.text(messages, { withTool: true, addGenerationPrompt });
  const prompt = render([question], true);
  // Some templates close the section of calls only after the second one, and some omit the quotes
  // of strings.
  const texts = [1, 2]
    .flatMap((count) => probeIds.map((id) => ({ count, id })))
    .flatMap(({ count, id }) =>
      [probeArguments, JSON.stringify(probeArguments), probeNumber].flatMap((given) =>
        ["", null].map((content) => callMessage(given, { id, count, content })),
      ),
    )
    .map((message) => render([question, message], false))
    .filter((rendered) => rendered.includes("probe_key"));
  const closed = (turns.endToken ?? "") + turns.closing;
  const actions = texts.map((text) => {
    const opened = text.startsWith(prompt) ? prompt.length : endOf(text, probeContents.question);
    const action = text.slice(opened);
    return action.endsWith(closed) ? action.slice(0, action.length - closed.length) : action;
  });
  return actions.find((action) => readingParser(action) !== undefined) ?? actions[0] ?? "";
}

const probeNumber = { probe_key: 7 };

/**
 * Ids of calls: nine characters as Mistral's templates demand, and the form in which Kimi's models
 * write their ids.
 */
const probeIds = ["probe0001", "functions.probe_tool:0"];

/**
 * Also finds a parser that reads the call once its section is closed: some templates leave that to
 * the model.
 */
export function readingParser(call: string, chatTemplate = ""): ToolCallParser | undefined {
  const parsers = allParsers();
  const readers = parsers.filter((parser) => readsProbe(parser, call));
  const relative = relatives.find(
    ([text, name]) => chatTemplate.includes(text) && readers.some((reader) => reader.name === name),
  );
  return (
    readers.find(({ name }) => name === relative?.[1]) ??
    readers.find(({ markers }) => markers.length > 0 && markers.every((marker) => call.includes(marker))) ??
    readers[0] ??
    parsers.find((parser) => call !== "" && parser.markers.some((marker) => readsProbe(parser, call + marker)))
  );
}

function allParsers(): readonly ToolCallParser[] {
  const names = [...common, ...toolCallParserNames.filter((name) => !common.includes(name))];
  return names.map((name) => toolCallParser(name));
}

export type DetectedToolCallParser = {
  /** Name of the parser. */
  readonly parser: string;
  readonly basis: RendererFamily["toolCallBasis"];
};

/**
 * `call`: the call as the template writes it, "" if it writes none. `instructions`: the part of a
 * prompt that it writes only if there are tools.
 */
export function detectToolCallParser(
  call: string,
  {
    chatTemplate,
    instructions,
    tokenizer,
  }: { readonly chatTemplate: string; readonly instructions: string; readonly tokenizer: Tokenizer },
): DetectedToolCallParser {
  const parsers = allParsers();
  const reading = readingParser(call, chatTemplate);
  const requested = requestedParsers(instructions);
  // A model writes what its prompt requests, even if its template restates earlier calls otherwise.
  const isContradicted = call !== "" && requested.length > 0 && !requested.some((one) => readsProbe(one, call));
  if (isContradicted) return { parser: requested[0]!.name, basis: "requested" };
  if (reading !== undefined) return { parser: reading.name, basis: "written" };
  const showsTools = instructions.includes("probe_tool");
  const isUnread = call !== "" || showsTools;
  const marked = parsers.filter(
    ({ markers }) => markers.length > 0 && markers.every((marker) => chatTemplate.includes(marker)),
  );
  const weight = ({ markers }: ToolCallParser): number => markers.join("").length;
  const heaviest = marked.toSorted((left, right) => weight(right) - weight(left))[0];
  // A parser that cannot read the template's own call is not chosen, regardless of its markers.
  if (heaviest !== undefined && call === "") return { parser: heaviest.name, basis: "marked" };
  const sign = signs.find(([text, name]) => chatTemplate.includes(text) && toolCallParserNames.includes(name));
  if (sign !== undefined && call === "") return { parser: sign[1], basis: "marked" };
  // Some templates rely on the format that the model learned: then its vocabulary has the tokens of
  // one format.
  const known = parsers.filter(
    ({ markers }) => markers.length > 1 && markers.every((marker) => isSpecialToken(marker, tokenizer)),
  );
  if (known.length === 1 && call === "" && showsTools) return { parser: known[0]!.name, basis: "marked" };
  return { parser: heaviest?.name ?? assumed, basis: isUnread ? "unread" : "assumed" };
}

/**
 * Parsers whose calls the instructions show as the form to write: the text before the name of the
 * tool, without regard to white space. Several formats share a marker.
 */
function requestedParsers(instructions: string): readonly ToolCallParser[] {
  const shown = instructions.replaceAll(/\s/g, "");
  return allParsers().filter(({ name, markers }) => {
    const spelled = spelledCall(name, "probe_tool") ?? "";
    const opening = spelled.slice(0, spelled.indexOf("probe_tool")).replaceAll(/\s|"$/g, "");
    return shown.includes(opening) && markers.some((marker) => opening.includes(marker) && opening !== marker);
  });
}

function isSpecialToken(text: string, tokenizer: Tokenizer): boolean {
  const id = tokenizer.tokenId(text);
  return id !== null && tokenizer.isSpecial(id);
}

function readsProbe(parser: ToolCallParser, text: string): boolean {
  const { calls } = parser.parse(text, { tools: [toolFromDefinition(probeTool)] });
  return calls.length > 0 && calls.every(({ name, parameters }) => name === "probe_tool" && isProbe(parameters));
}

function isProbe(parameters: string): boolean {
  try {
    const read = dumpJson(parseJson(parameters));
    return [probeArguments, probeNumber].some((given) => dumpJson(fromPlain(given)) === read);
  } catch (error) {
    if (error instanceof JsonSyntaxError) return false;
    throw error;
  }
}

/** Closing tags, the rarer ones first, with the parser that reads them. */
const reasoningTags: readonly (readonly [tag: string, parser: string])[] = [
  ["<rfl:parameter ", "beam"],
  ["<|channel|>analysis", "gpt-oss"],
  ["<|inner_suffix|>", "apertus2509"],
  // Each parser of Command models drops answers in the frame of the other.
  ["<|START_TEXT|>", "cohere_command4"],
  ["<|START_RESPONSE|>", "cohere_command3"],
  ["<|content_thinking|>", "inkling"],
  ["</ifm|think>", "k2_horizon"],
  ["<|close|>think<|sep|>", "kimi_k3"],
  [" to=self<|message|>", "muse"],
  ["</mm:think>", "minimax-m3"],
  ["</seed:think>", "seed_oss"],
  ["◁/think▷", "kimi"],
  ["<channel|>", "gemma4"],
  ["[/THINK]", "mistral"],
  ["</think>", "qwen3"],
];

/** The name of a parser; `null` if the template has no tags of reasoning. */
export function detectReasoningParser(chatTemplate: string): string | null {
  const found = reasoningTags.find(([tag]) => chatTemplate.includes(tag));
  return found?.[1] ?? null;
}

function endOf(text: string, part: string): number {
  const at = text.lastIndexOf(part);
  return at === -1 ? 0 : at + part.length;
}
