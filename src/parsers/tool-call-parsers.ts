// The tool-call parsers by SGLang's names, its aliases included; by vLLM's names those that only
// vLLM has, and vLLM's other names of formats that both read, which are read as SGLang does; and two
// of our own for families whose templates neither server reads: `mistral_ids` and `seed_oss`. Each
// is loaded when it is first requested.

import { ParserTable } from "./parser-table.ts";
import type { ToolCallParser } from "./tool-call-parser.ts";

/** Names that only vLLM has, of formats that SGLang reads by another name. */
const vllmNames = {
  apertus: "apertus2509", openai: "gpt-oss", qwen3_xml: "qwen3_coder", step5: "qwen3_coder", llama4_pythonic: "pythonic",
  deepseek_v3: "deepseekv3", deepseek_v31: "deepseekv31", deepseek_v32: "deepseekv32", deepseek_v4: "deepseekv4", deepseek_v41: "deepseekv41",
  llama3_json: "llama3", llama4_json: "llama3", minimax_m2: "minimax-m2", minimax_m3: "minimax-m3", muse_glimmer: "muse", musespark1x: "muse",
} as const; // prettier-ignore

const table = new ParserTable<ToolCallParser>({
  task: "read tool calls",
  loaders: {
    apertus2509: async () => (await import("./formats/apertus.ts")).apertus,
    beam: async () => (await import("./formats/beam.ts")).beam,
    cohere_command3: async () => (await import("./formats/cohere-command3.ts")).cohereCommand3,
    cohere_command4: async () => (await import("./formats/cohere-command4.ts")).cohereCommand4,
    deepseekv3: async () => (await import("./formats/json-blocks.ts")).deepseekv3,
    deepseekv31: async () => (await import("./formats/json-blocks.ts")).deepseekv31,
    deepseekv32: async () => (await import("./formats/dsml.ts")).deepseekv32,
    deepseekv4: async () => (await import("./formats/dsml.ts")).deepseekv4,
    deepseekv41: async () => (await import("./formats/dsml.ts")).deepseekv41,
    dots: async () => (await import("./formats/dots.ts")).dots,
    ernie45: async () => (await import("./formats/vllm-json.ts")).ernie45,
    functiongemma: async () => (await import("./formats/function-gemma.ts")).functionGemma,
    gemma4: async () => (await import("./formats/gemma4.ts")).gemma4,
    gigachat3: async () => (await import("./formats/gigachat3.ts")).gigachat3,
    gigachat35: async () => (await import("./formats/gigachat35.ts")).gigachat35,
    glm45: async () => (await import("./formats/glm.ts")).glm45,
    glm47: async () => (await import("./formats/glm.ts")).glm47,
    "gpt-oss": async () => (await import("./formats/gpt-oss.ts")).gptOss,
    granite: async () => (await import("./formats/vllm-engine.ts")).granite,
    "granite-20b-fc": async () => (await import("./formats/vllm-json.ts")).granite20bFc,
    granite4: async () => (await import("./formats/vllm-json.ts")).granite4,
    hermes: async () => (await import("./formats/json-blocks.ts")).hermes,
    hunyuan: async () => (await import("./formats/hunyuan.ts")).hunyuan,
    hunyuan_a13b: async () => (await import("./formats/json-lists.ts")).hunyuanA13b,
    inkling: async () => (await import("./formats/inkling.ts")).inkling,
    internlm: async () => (await import("./formats/vllm-json.ts")).internlm,
    interns1: async () => (await import("./formats/json-blocks.ts")).interns1,
    hy_v3: async () => (await import("./formats/hy.ts")).hyV3,
    hy_v4: async () => (await import("./formats/hy.ts")).hyV4,
    iquest_q1: async () => (await import("./formats/glm.ts")).iquestQ1,
    jamba: async () => (await import("./formats/vllm-json.ts")).jamba,
    k2_horizon: async () => (await import("./formats/k2-horizon.ts")).k2Horizon,
    kimi_k2: async () => (await import("./formats/kimi-k2.ts")).kimiK2,
    kimi_k3: async () => (await import("./formats/kimi-k3.ts")).kimiK3,
    lfm2: async () => (await import("./formats/lfm2.ts")).lfm2,
    ling3: async () => (await import("./formats/glm.ts")).ling3,
    llama3: async () => (await import("./formats/llama3.ts")).llama3,
    longcat: async () => (await import("./formats/vllm-json.ts")).longcat,
    mimo: async () => (await import("./formats/function-tags.ts")).mimo,
    minicpm5: async () => (await import("./formats/minicpm5.ts")).minicpm5,
    "minimax-m2": async () => (await import("./formats/minimax.ts")).minimaxM2,
    "minimax-m3": async () => (await import("./formats/minimax.ts")).minimaxM3,
    mistral: async () => (await import("./formats/mistral.ts")).mistral,
    mistral_ids: async () => (await import("./formats/mistral.ts")).mistralIds,
    muse: async () => (await import("./formats/muse.ts")).muse,
    olmo3: async () => (await import("./formats/python-calls.ts")).olmo3,
    phi4_mini_json: async () => (await import("./formats/vllm-json.ts")).phi4MiniJson,
    plamo3: async () => (await import("./formats/vllm-engine.ts")).plamo3,
    poolside_v1: async () => (await import("./formats/poolside.ts")).poolside,
    pythonic: async () => (await import("./formats/python-calls.ts")).pythonic,
    qwen25: async () => (await import("./formats/json-blocks.ts")).qwen25,
    qwen3_coder: async () => (await import("./formats/function-tags.ts")).qwen3Coder,
    qwen3_json: async () => (await import("./formats/vllm-json.ts")).qwen3Json,
    seed_oss: async () => (await import("./formats/function-tags.ts")).seedOss,
    spark25: async () => (await import("./formats/spark25.ts")).spark25,
    step3: async () => (await import("./formats/step3.ts")).step3,
    trinity: async () => (await import("./formats/json-blocks.ts")).trinity,
    xlam: async () => (await import("./formats/json-lists.ts")).xlam,
  },
  aliases: { glm: "glm45", nanbeige: "qwen3_coder", qwen: "qwen25", step3p5: "qwen3_coder", ...vllmNames },
});

export const toolCallParserNames: readonly string[] = table.names;

/**
 * The first name of a tool-call parser, given any of its names. Throws a `ConfigurationError` that
 * lists the available names.
 */
export const firstToolCallParserName = (name: string): string => table.firstName(name);

/**
 * Loads a tool-call parser by name. Rejects with a `ConfigurationError` that lists the available
 * names.
 */
export const loadToolCallParser = (name: string): Promise<ToolCallParser> => table.load(name);

/** The tool-call parser of a name. Throws a `ConfigurationError` that lists the available names. */
export const toolCallParser = (name: string): ToolCallParser => table.get(name);

/** Adds parsers that were imported directly rather than through `loadToolCallParser`. */
export const addToolCallParsers = (parsers: readonly ToolCallParser[]): void => table.add(parsers);
