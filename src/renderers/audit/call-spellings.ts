// How a call of the audit's tool is spelled for a parser, for templates that write none or refuse it. A table; what a template
// writes itself always comes first.

const json = (args: string): string => `<tool_call>\n{"name": "find_order", "arguments": ${args}}\n</tool_call>`;

const spellings: Readonly<Record<string, (args: string) => string>> = {
  qwen25: json,
  hermes: json,
  kimi_k2: (args) =>
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.find_order:0<|tool_call_argument_begin|>" +
    `${args}<|tool_call_end|><|tool_calls_section_end|>`,
  deepseekv3: (args) =>
    `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>find_order\n\`\`\`json\n${args}\n\`\`\`` +
    "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
  deepseekv31: (args) =>
    `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>find_order<｜tool▁sep｜>${args}<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
  "gpt-oss": (args) => `<|channel|>commentary to=functions.find_order <|constrain|>json<|message|>${args}`,
};

/** Parsers whose calls the audit can spell. */
export const spelledParsers: readonly string[] = Object.keys(spellings);

/** One call with these arguments (JSON text); for other parsers than those of the table, in the spelling of `qwen25`. */
export function spelledCall(parser: string, args: string): string {
  return (Object.hasOwn(spellings, parser) ? spellings[parser]! : json)(args);
}
