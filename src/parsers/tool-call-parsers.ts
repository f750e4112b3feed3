// The tool-call parsers by SGLang's names, its aliases included, and two of our own for families that it has none for:
// `mistral_ids` and `seed_oss`.

import { ConfigurationError } from "../core/index.ts";
import { deepseekv32, deepseekv4, deepseekv41 } from "./formats/dsml.ts";
import { mimo, qwen3Coder, seedOss } from "./formats/function-tags.ts";
import { gemma4 } from "./formats/gemma4.ts";
import { gigachat35 } from "./formats/gigachat35.ts";
import { gigachat3 } from "./formats/gigachat3.ts";
import { glm45, glm47, iquestQ1, ling3 } from "./formats/glm.ts";
import { gptOss } from "./formats/gpt-oss.ts";
import { hunyuan } from "./formats/hunyuan.ts";
import { deepseekv3, deepseekv31, hermes, interns1, qwen25, trinity } from "./formats/json-blocks.ts";
import { kimiK2 } from "./formats/kimi-k2.ts";
import { llama3 } from "./formats/llama3.ts";
import { minimaxM2, minimaxM3 } from "./formats/minimax.ts";
import { mistral, mistralIds } from "./formats/mistral.ts";
import { lfm2 } from "./formats/lfm2.ts";
import { pythonic } from "./formats/python-calls.ts";
import { step3 } from "./formats/step3.ts";
import type { ToolCallParser } from "./tool-call-parser.ts";
import { remedyFor } from "../lib/nearest.ts";

const allParsers: readonly ToolCallParser[] = [
  deepseekv3,
  deepseekv31,
  deepseekv32,
  deepseekv4,
  deepseekv41,
  gemma4,
  gigachat3,
  gigachat35,
  glm45,
  glm47,
  gptOss,
  hermes,
  hunyuan,
  interns1,
  iquestQ1,
  kimiK2,
  lfm2,
  ling3,
  llama3,
  mimo,
  minimaxM2,
  minimaxM3,
  mistral,
  mistralIds,
  pythonic,
  qwen25,
  qwen3Coder,
  seedOss,
  step3,
  trinity,
];

const parsers: ReadonlyMap<string, ToolCallParser> = new Map(allParsers.map((parser) => [parser.name, parser]));

const aliases: ReadonlyMap<string, string> = new Map([
  ["glm", "glm45"],
  ["nanbeige", "qwen3_coder"],
  ["qwen", "qwen25"],
  ["step3p5", "qwen3_coder"],
]);

export const toolCallParserNames: readonly string[] = [...parsers.keys(), ...aliases.keys()].sort();

/** The tool-call parser of a name. Throws a `ConfigurationError` that lists the names there are. */
export function toolCallParser(name: string): ToolCallParser {
  const parser = parsers.get(aliases.get(name) ?? name);
  if (parser !== undefined) return parser;
  throw new ConfigurationError(
    `Cannot read tool calls with parser "${name}": there is none of that name; ${remedyFor(name, toolCallParserNames)}`,
  );
}
