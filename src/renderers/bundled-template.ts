// The chat template that we wrote ourselves, for the models that this package trains and for
// demonstrations.

/** The sentence of the bundled template that an instruction on tools replaces. */
export const bundledToolSentence = "Use a tool when it helps.";

/**
 * The chat template of the models that this package trains, as written to their
 * tokenizer_config.json: ChatML with tools, in the format of the family "qwen3-instruct-2507"
 * except for its sentences, which are our own.
 */
export const bundledChatTemplate = `
{%- set first = messages[0] if messages else none -%}
{%- set has_system = first is not none and first.role == 'system' -%}
{%- if tools -%}
  {{- '<|im_start|>system\\n' -}}
  {%- if has_system -%}{{- first.content + '\\n\\n' -}}{%- endif -%}
  {{- '# Tools\\n\\n${bundledToolSentence}\\n\\nThe tools:\\n<tools>' -}}
  {%- for tool in tools -%}{{- '\\n' + (tool | tojson) -}}{%- endfor -%}
  {{- '\\n</tools>\\n\\nA call is written like this:\\n<tool_call>\\n' -}}
  {{- '{"name": "some_tool", "arguments": {}}\\n</tool_call><|im_end|>\\n' -}}
{%- elif has_system -%}
  {{- '<|im_start|>system\\n' + first.content + '<|im_end|>\\n' -}}
{%- endif -%}
{%- for message in messages -%}
  {%- set content = message.content if message.content is string else '' -%}
  {%- if message.role == 'user' or (message.role == 'system' and not loop.first) -%}
    {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' -}}
  {%- elif message.role == 'assistant' -%}
    {{- '<|im_start|>assistant\\n' + content -}}
    {%- for entry in message.tool_calls or [] -%}
      {%- set call = entry.function or entry -%}
      {%- if content or not loop.first -%}{{- '\\n' -}}{%- endif -%}
      {{- '<tool_call>\\n{"name": "' + call.name + '", "arguments": ' -}}
      {{- call.arguments if call.arguments is string else (call.arguments | tojson) -}}
      {{- '}\\n</tool_call>' -}}
    {%- endfor -%}
    {{- '<|im_end|>\\n' -}}
  {%- elif message.role == 'tool' -%}
    {%- if loop.first or loop.previtem.role != 'tool' -%}{{- '<|im_start|>user' -}}{%- endif -%}
    {{- '\\n<tool_response>\\n' + content + '\\n</tool_response>' -}}
    {%- if loop.last or loop.nextitem.role != 'tool' -%}{{- '<|im_end|>\\n' -}}{%- endif -%}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}
`.trim();
