// The reasoning parsers by SGLang's names, its aliases included; by vLLM's names those that only vLLM
// has, and vLLM's other names of formats that both read, which are read as SGLang does; `seed_oss`
// is read as SGLang reads others. A reasoning parser splits sampled text into reasoning and the rest before the tool-call parser runs: a call
// inside closed reasoning is a thought, not a call. Most are table rows: they differ in their tags
// and in who may force reasoning. The others are loaded when they are first requested.

import { ParserTable } from "./parser-table.ts";
import {
  createTagReasoningParser,
  type ReasoningParser,
  restStep,
  type TagReasoningFormat,
} from "./reasoning-parser.ts";

const think = { start: "<think>", end: "</think>" };
const toolCall = { ...think, callStart: "<tool_call>" };

const formats: readonly TagReasoningFormat[] = [
  { name: "deepseek-r1", ...think, forced: "always" },
  { name: "deepseek-v3", ...toolCall, forced: "on-request" },
  { name: "deepseek-v4", ...think, forced: "on-request" },
  { name: "gemma4", start: "<|channel>", end: "<channel|>", label: "thought\n", forced: "on-request" },
  { name: "glm45", ...toolCall, forced: "on-request" },
  { name: "granite_thinking_parser", ...toolCall, forced: "on-request", dropsLineFeeds: true },
  { name: "hunyuan", ...think, callStart: "<tool_calls>", forced: "on-request" },
  { name: "iquest_q1", ...think, forced: "always" },
  {
    name: "k2_horizon",
    start: "<ifm|think>",
    end: "</ifm|think>",
    callStart: "<ifm|tool_call",
    forced: "always",
  },
  { name: "kimi", start: "◁think▷", end: "◁/think▷", forced: "never" },
  { name: "kimi_k2", ...think, callStart: "<|tool_calls_section_begin|>", forced: "on-request" },
  { name: "ling3", ...toolCall, forced: "on-request", reasoningAsContent: true },
  { name: "minimax", ...toolCall, forced: "always" },
  { name: "minimax-m3", start: "<mm:think>", end: "</mm:think>", forced: "on-request", dropsStrayEnd: true },
  { name: "mistral", start: "[THINK]", end: "[/THINK]", forced: "on-request" },
  { name: "nemotron_3", ...toolCall, forced: "on-request" },
  { name: "qwen3", ...toolCall, forced: "on-request" },
  { name: "qwen3-thinking", ...toolCall, forced: "always" },
  {
    name: "seed_oss",
    start: "<seed:think>",
    end: "</seed:think>",
    callStart: "<seed:tool_call>",
    forced: "on-request",
  },
];

/** Other names of the same parsers, including those of earlier versions of SGLang. */
const aliases: ReadonlyMap<string, string> = new Map([
  ["deepseek-v41", "deepseek-v4"], ["gigachat35", "deepseek-r1"], ["step3", "deepseek-r1"], ["step3p5", "deepseek-r1"], ["nano_v3", "nemotron_3"],
  ["dots", "qwen3"], ["interns1", "qwen3"], ["mimo", "qwen3"], ["nanbeige", "qwen3"], ["poolside_v1", "qwen3"],
]); // prettier-ignore

/** Names that only vLLM has, of formats that SGLang reads by another name. */
const vllmNames = {
  deepseek_r1: "deepseek-r1", deepseek_v3: "deepseek-v3", deepseek_v4: "deepseek-v4", deepseek_v41: "deepseek-v41",
  glm47: "glm45", openai_gptoss: "gpt-oss", minimax_m2: "minimax", minimax_m2_append_think: "minimax-append-think", minimax_m3: "minimax-m3",
  nemotron_v3: "nemotron_3", muse_glimmer: "muse", musespark1x: "muse",
} as const; // prettier-ignore

const vllmOnly = ["ernie45", "granite", "holo2", "hunyuan_a13b", "hy_v3", "hy_v4", "minicpmv", "olmo3", "plamo3", "step5"]; // prettier-ignore
const vllmParser = async (name: string): Promise<ReasoningParser> =>
  (await import("./formats/vllm-reasoning.ts")).vllmReasoning.get(name)!;

/** Marks the whole text as thought in the text itself, and splits nothing. */
const minimaxAppendThink: ReasoningParser = {
  name: "minimax-append-think",
  markers: [think.start, think.end],
  hasTags: false,
  split: (text) => ({ reasoning: "", normalText: think.start + text }),
  startSplitting: () => restStep(think.start),
};

const aliasFormats = (): readonly TagReasoningFormat[] =>
  formats.flatMap((format) =>
    [...aliases].filter(([, name]) => name === format.name).map(([alias]) => ({ ...format, name: alias })),
  );

const table = new ParserTable<ReasoningParser>({
  task: "split reasoning",
  loaders: {
    apertus2509: async () => (await import("./formats/apertus.ts")).apertusReasoning,
    beam: async () => (await import("./formats/beam.ts")).beamReasoning,
    cohere_command3: async () => (await import("./formats/cohere-command3.ts")).cohereCommand3Reasoning,
    cohere_command4: async () => (await import("./formats/cohere-command4.ts")).cohereCommand4Reasoning,
    "gpt-oss": async () => (await import("./formats/gpt-oss.ts")).gptOssReasoning,
    inkling: async () => (await import("./formats/inkling.ts")).inklingReasoning,
    kimi_k3: async () => (await import("./formats/kimi-k3.ts")).kimiK3Reasoning,
    muse: async () => (await import("./formats/muse.ts")).museReasoning,
    ...Object.fromEntries(vllmOnly.map((name) => [name, async () => vllmParser(name)])),
  },
  aliases: vllmNames,
  rows: [...formats, ...aliasFormats()].map(createTagReasoningParser).concat(minimaxAppendThink),
});

export const reasoningParserNames: readonly string[] = table.names;

/**
 * Loads a reasoning parser by name. Rejects with a `ConfigurationError` that lists the available
 * names.
 */
export const loadReasoningParser = (name: string): Promise<ReasoningParser> => table.load(name);

/** The reasoning parser of a name. Throws a `ConfigurationError` that lists the available names. */
export const reasoningParser = (name: string): ReasoningParser => table.get(name);

/** Adds parsers that were imported directly rather than through `loadReasoningParser`. */
export const addReasoningParsers = (parsers: readonly ReasoningParser[]): void => table.add(parsers);
