// Imports every format, so that the parser of any name is there without waiting. A rollout does not import this file.

import * as dsml from "./formats/dsml.ts";
import * as functionTags from "./formats/function-tags.ts";
import * as gemma4 from "./formats/gemma4.ts";
import * as gigachat3 from "./formats/gigachat3.ts";
import * as gigachat35 from "./formats/gigachat35.ts";
import * as glm from "./formats/glm.ts";
import * as gptOss from "./formats/gpt-oss.ts";
import * as hunyuan from "./formats/hunyuan.ts";
import * as jsonBlocks from "./formats/json-blocks.ts";
import * as kimiK2 from "./formats/kimi-k2.ts";
import * as lfm2 from "./formats/lfm2.ts";
import * as llama3 from "./formats/llama3.ts";
import * as minimax from "./formats/minimax.ts";
import * as mistral from "./formats/mistral.ts";
import * as pythonCalls from "./formats/python-calls.ts";
import * as step3 from "./formats/step3.ts";
import type { ReasoningParser } from "./reasoning-parser.ts";
import { addReasoningParsers } from "./reasoning-parsers.ts";
import type { ToolCallParser } from "./tool-call-parser.ts";
import { addToolCallParsers } from "./tool-call-parsers.ts";

const exported: readonly unknown[] = [
  dsml,
  functionTags,
  gemma4,
  gigachat3,
  gigachat35,
  glm,
  gptOss,
  hunyuan,
  jsonBlocks,
  kimiK2,
  lfm2,
  llama3,
  minimax,
  mistral,
  pythonCalls,
  step3,
].flatMap((module): readonly unknown[] => Object.values(module));

const isObject = (value: unknown): value is object => typeof value === "object" && value !== null;

/** Makes every parser known to `toolCallParser` and `reasoningParser`. */
export function addAllFormats(): void {
  addToolCallParsers(exported.filter((value): value is ToolCallParser => isObject(value) && "hasToolCall" in value));
  addReasoningParsers(
    exported.filter((value): value is ReasoningParser => isObject(value) && "startSplitting" in value),
  );
}
