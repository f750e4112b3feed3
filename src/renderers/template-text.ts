// Chat templates as text: the one that we wrote ourselves, the fingerprint that recognises a published one, and the compiled
// program of each. Vendors' templates come from the folders of their models and are never part of the package.

import { AttributedError, ConfigurationError } from "../core/index.ts";
import { type ChatTemplate, ChatTemplateError, type TemplateSource } from "./chat-template.ts";
import { compileChatTemplate } from "./jinja/compile-chat-template.ts";

/** The sentence of the bundled template in whose place an instruction on tools goes. */
export const bundledToolSentence = "Use a tool when it helps.";

/**
 * The chat template of the models that this package trains, as it goes into their tokenizer_config.json: ChatML with tools, in
 * the format of the family "qwen3-instruct-2507" but for its sentences, which are our own.
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

/**
 * Identifies a chat template by its text: two FNV-1a hashes of the UTF-16 units in hexadecimal, line ends and surrounding white
 * space aside. Distinguishes published templates; not a defence against forgery.
 */
export function templateFingerprint(template: string): string {
  const text = template.replaceAll("\r\n", "\n").trim();
  let low = 0x811c9dc5;
  let high = 0x9747b28c;
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index);
    low = Math.imul(low ^ unit, 0x01000193);
    high = Math.imul(high ^ (unit + 0x5bd1), 0x01000193);
  }
  return [high, low].map((hash) => (hash >>> 0).toString(16).padStart(8, "0")).join("");
}

/** The latest compiled templates by their text: a run makes many renderers of one, and compiling costs more than rendering. */
const compiled = new Map<string, ChatTemplate>();
const maxCompiled = 8;

/** The program of a chat template. Throws a `ConfigurationError` with the reason where it cannot be compiled. */
export function compiledTemplate(text: TemplateSource): ChatTemplate {
  if (typeof text !== "string") return text;
  const template = compiled.get(text) ?? unlessRefused(text, () => compileChatTemplate(text));
  compiled.delete(text);
  compiled.set(text, template);
  if (compiled.size > maxCompiled) compiled.delete(compiled.keys().next().value!);
  return template;
}

/** What `run` returns. A template's own error, after `state`, is why no renderer can be made of it. */
export function unlessRefused<T>(text: TemplateSource, run: () => T, state = ""): T {
  try {
    return run();
  } catch (error) {
    if (error instanceof ChatTemplateError) throw templateRefusal(text, state + error.message, error);
    if (error instanceof AttributedError && error.failure.code === "message-not-shown") {
      throw templateRefusal(text, "it leaves out a question");
    }
    throw error;
  }
}

/** The error for a template that no renderer can be made from. */
export function templateRefusal(text: TemplateSource, state: string, cause?: ChatTemplateError): ConfigurationError {
  const message = `Cannot make a renderer from chat template "${templateName(text)}": ${state.replace(/\.$/, "")}.`;
  return new ConfigurationError(message, cause === undefined ? undefined : { cause });
}

/** What an unknown chat template is called; an encoder is called by its family. */
export function templateName(text: TemplateSource): string {
  return typeof text !== "string" ? text.family.name : `template-${templateFingerprint(text)}`;
}
