// The encoders with sentences of our own in place of the vendors', and output of models of their
// families.

import { addAllFormats } from "../../parsers/all-formats.ts";
import { encoderOf } from "./encoder-table.ts";
import type { PromptEncoder } from "../chat-template.ts";
import type { FamilySample } from "../family-samples.test-helper.ts";

addAllFormats();

/** A Python module as a model folder may hold it; the sentences are ours. */
export const ourModule = `"""Sentences for tests."""
import json

bos_token: str = "x"
TOOLS_SYSTEM_TEMPLATE = """## Our tools of {dsml_token}
Write {{"a": 1}} after {thinking_start_token}{thinking_end_token}:
{tool_schemas}
The end.
"""
TOOLS_TEMPLATE = """Tools, called with {dsml_token}:
{tool_schemas}
No more tools."""
_TOOLS_PREFIX = "\\nTools:\\n"
_TOOLS_SUFFIX = "No more tools."
REASONING_EFFORT_PROMPTS: Dict[str, str] = {
    "low": "",  # nothing
    "high": (
        "Think well.\\n"
        'Then answer.\\n\\n'
    ),
    "max": "Think very well.\\n\\n",
}
REASONING_EFFORT_TEMPLATE = (
    "Effort {budget} "
    "of 100.\\n\\n"
)


def encode_messages(messages):
    raise SystemExit("This is never run.")
`;

export const deepseekTypes = ["deepseek_v32", "deepseek_v4", "deepseek_v41"] as const;
export const encoderTypes = [...deepseekTypes, "glm_moe_dsa", "inkling"] as const;

/** The encoder for a model type of config.json. @default `contents`: our own module */
export async function testEncoder(
  modelType: (typeof encoderTypes)[number],
  contents: readonly string[] = [ourModule],
): Promise<PromptEncoder> {
  return encoderOf(new Map([["model_type", modelType]]))!.load(contents);
}

const markers = ["<｜Assistant｜>", "<｜System｜>", "｜DSML｜", "<think>", "</think>"];

function sample(calls: string, call: string, parameter: string): FamilySample {
  const tag = (name: string, rest: string): string => `<｜DSML｜${name}${rest}`;
  return {
    markers,
    thought: "I should look.</think>Hello!",
    call: [
      `\n\n${tag(calls, ">")}`,
      tag(call, ' name="find_order">'),
      `${tag(parameter, ' name="order_id" string="true">')}#W1</｜DSML｜${parameter}>`,
      `</｜DSML｜${call}>`,
      `</｜DSML｜${calls}>`,
    ].join("\n"),
  };
}

export const encoderSamples: Readonly<Record<string, FamilySample>> = {
  "deepseek-v3.2": {
    ...sample("function_calls", "invoke", "parameter"),
    // Thinks only if requested.
    thought: "<think>I should look.</think>Hello!",
    needsCallBeforeResults: true,
    countsResults: true,
  },
  "deepseek-v4": sample("tool_calls", "invoke", "parameter"),
  "deepseek-v4.1": sample(" calls", " invoke", " parameter"),
  "glm-5.3": {
    markers: [
      ...["<|system|>", "<|assistant|>", "<|observation|>", "[gMASK]", "<sop>", "<think>", "</think>"],
      ...["<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"],
    ],
    thought: "I should look.</think>Hello!",
    call: "</think><tool_call>find_order<arg_key>order_id</arg_key><arg_value>#W1</arg_value></tool_call>",
  },
  inkling: {
    markers: [
      ...["<|message_model|>", "<|message_system|>", "<|message_tool|>", "<|end_message|>", "<|content_text|>"],
      ...["<|content_thinking|>", "<|content_xml|>", "<|content_invoke_tool_json|>"],
    ],
    thought: "<|content_thinking|>I should look.<|end_message|><|message_model|><|content_text|>Hello!<|end_message|>",
    call: 'find_order<|content_invoke_tool_json|>{"name":"find_order","args":{"order_id":"#W1"}}<|end_message|>',
  },
};
