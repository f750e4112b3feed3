// The conversation as a prompt's text shows it, in ChatML with Qwen's way of writing tool calls and results. The expert
// knows nothing else: no environment, no task, no seed of either.

import { type JsonObject, JsonSyntaxError, parseJson } from "../../../python-semantics/json/index.ts";

export type Call = { readonly name: string; readonly arguments: JsonObject };

export type Line =
  | { readonly role: "member"; readonly words: string }
  | { readonly role: "desk"; readonly words: string; readonly call: Call | null }
  | { readonly role: "till"; readonly text: string };

/** Reads the lines after the system message. A last open block (the generation prompt) is no line. */
export function readConversation(prompt: string): readonly Line[] {
  const lines: Line[] = [];
  const blocks = prompt.split("<|im_start|>").slice(1);
  for (const block of blocks.slice(0, -1)) {
    const [, role, body] = /^(\w+)\n([\s\S]*?)(?:<\|im_end\|>\s*)?$/.exec(block) ?? [];
    if (role === undefined || body === undefined) continue;
    if (role === "assistant") {
      lines.push({ role: "desk", words: body, call: readCall(body) });
    } else if (role === "user") {
      const results = [...body.matchAll(/<tool_response>\n([\s\S]*?)\n<\/tool_response>/g)];
      for (const [, text = ""] of results) lines.push({ role: "till", text });
      if (results.length === 0) lines.push({ role: "member", words: body });
    }
  }
  return lines;
}

/** The first call of an action, or `null`. */
function readCall(body: string): Call | null {
  const json = /<tool_call>\n([\s\S]*?)\n<\/tool_call>/.exec(body)?.[1];
  if (json === undefined) return null;
  try {
    const value = parseJson(json);
    if (!(value instanceof Map)) return null;
    const name = value.get("name");
    const args = value.get("arguments");
    return typeof name === "string" && args instanceof Map ? { name, arguments: args } : null;
  } catch (error) {
    if (error instanceof JsonSyntaxError) return null;
    throw error;
  }
}
