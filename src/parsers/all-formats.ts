// Imports every format, so that the parser of any name is available synchronously. A rollout does
// not import this file.

import * as apertus from "./formats/apertus.ts";
import * as beam from "./formats/beam.ts";
import * as cohereCommand3 from "./formats/cohere-command3.ts";
import * as cohereCommand4 from "./formats/cohere-command4.ts";
import * as dots from "./formats/dots.ts";
import * as dsml from "./formats/dsml.ts";
import * as functionGemma from "./formats/function-gemma.ts";
import * as functionTags from "./formats/function-tags.ts";
import * as gemma4 from "./formats/gemma4.ts";
import * as gigachat3 from "./formats/gigachat3.ts";
import * as gigachat35 from "./formats/gigachat35.ts";
import * as glm from "./formats/glm.ts";
import * as gptOss from "./formats/gpt-oss.ts";
import * as hunyuan from "./formats/hunyuan.ts";
import * as hy from "./formats/hy.ts";
import * as inkling from "./formats/inkling.ts";
import * as jsonBlocks from "./formats/json-blocks.ts";
import * as jsonLists from "./formats/json-lists.ts";
import * as k2Horizon from "./formats/k2-horizon.ts";
import * as kimiK2 from "./formats/kimi-k2.ts";
import * as kimiK3 from "./formats/kimi-k3.ts";
import * as lfm2 from "./formats/lfm2.ts";
import * as llama3 from "./formats/llama3.ts";
import * as minicpm5 from "./formats/minicpm5.ts";
import * as minimax from "./formats/minimax.ts";
import * as mistral from "./formats/mistral.ts";
import * as muse from "./formats/muse.ts";
import * as poolside from "./formats/poolside.ts";
import * as pythonCalls from "./formats/python-calls.ts";
import * as spark25 from "./formats/spark25.ts";
import * as step3 from "./formats/step3.ts";
import * as vllmEngine from "./formats/vllm-engine.ts";
import * as vllmJson from "./formats/vllm-json.ts";
import { vllmReasoning } from "./formats/vllm-reasoning.ts";
import type { ReasoningParser } from "./reasoning-parser.ts";
import { addReasoningParsers } from "./reasoning-parsers.ts";
import type { ToolCallParser } from "./tool-call-parser.ts";
import { addToolCallParsers } from "./tool-call-parsers.ts";

const exported: readonly unknown[] = [
  apertus,
  beam,
  cohereCommand3,
  cohereCommand4,
  dots,
  dsml,
  functionGemma,
  functionTags,
  gemma4,
  gigachat3,
  gigachat35,
  glm,
  gptOss,
  hunyuan,
  hy,
  inkling,
  jsonBlocks,
  jsonLists,
  k2Horizon,
  kimiK2,
  kimiK3,
  lfm2,
  llama3,
  minicpm5,
  minimax,
  mistral,
  muse,
  poolside,
  pythonCalls,
  spark25,
  step3,
  vllmEngine,
  vllmJson,
].flatMap((module): readonly unknown[] => Object.values(module));

const isObject = (value: unknown): value is object => typeof value === "object" && value !== null;

/** Makes every parser known to `toolCallParser` and `reasoningParser`. */
export function addAllFormats(): void {
  addToolCallParsers(exported.filter((value): value is ToolCallParser => isObject(value) && "hasToolCall" in value));
  addReasoningParsers(
    exported.filter((value): value is ReasoningParser => isObject(value) && "startSplitting" in value),
  );
  addReasoningParsers([...vllmReasoning.values()]);
}
