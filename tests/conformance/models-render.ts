// Golden files `render.NAME` and `prefix.NAME`: output of transformers' own template compiler, and
// whether adding a message leaves the text before it unchanged. Each is run with the chat template
// found in the data folder. Part of the suite `models`.

import { readFileSync } from "node:fs";
import { join } from "node:path";

import { ConfigurationError } from "#src/core/index.ts";
import { type JsonObject, type JsonValue, parseJson } from "#src/python-semantics/json/index.ts";
import { type ChatTemplate, ChatTemplateError, compileChatTemplate, segmentsText } from "#src/renderers/index.ts";
import { findData } from "./find-data.ts";
import { GoldenTally, readGoldenFile, textOf } from "./golden-file.ts";
import type { GoldenFileReport, GoldenSuiteOptions } from "./suite.ts";

const names = /^(render|prefix)\.(.+)\.jsonl$/;

/**
 * Runs one file; `null` if its name is not one of ours. Records whose chat template is missing are
 * unsupported.
 */
export async function runRenderGoldens(
  folder: string,
  file: string,
  options: GoldenSuiteOptions,
): Promise<GoldenFileReport | null> {
  const [, kind, name] = names.exec(file) ?? [];
  if (kind === undefined || name === undefined) return null;
  const tally = new GoldenTally(file);
  const compiled = new Map<string, ChatTemplate | null>();
  for (const record of await readGoldenFile(join(folder, file))) {
    const templateName = textOf(record, "template") ?? name;
    if (!compiled.has(templateName)) compiled.set(templateName, compileFound(templateName, folder, options));
    const template = compiled.get(templateName) ?? null;
    if (template === null)
      tally.unsupported(`no chat template of ${templateName} in the data (${templateName}/chat_template.jinja)`);
    else playTemplateRecord(tally, { kind, template, record });
  }
  return tally.report();
}

type TemplateRecord = { readonly kind: string; readonly template: ChatTemplate; readonly record: JsonObject };

/** Compares the template's result for one record with the recorded one. */
function playTemplateRecord(tally: GoldenTally, { kind, template, record }: TemplateRecord): void {
  const expected = record.get("expected") ?? null;
  if (kind === "prefix") tally.compare(record, expected, () => playPrefix(template, record));
  else tally.compare(record, withoutMessage(expected), () => playRender(template, record));
}

/** The message of an error is compared only if the template itself chose it. */
function withoutMessage(expected: JsonValue): JsonValue {
  if (!(expected instanceof Map) || !expected.has("error") || expected.get("error") === "raise") return expected;
  return new Map([["error", expected.get("error")!]]);
}

function playRender(template: ChatTemplate, record: JsonObject): JsonValue {
  const addGenerationPrompt = record.get("add_generation_prompt") === true;
  const result = render(template, record, { messages: listOf(record, "messages"), addGenerationPrompt });
  if (!(result instanceof ChatTemplateError)) return new Map([["text", result]]);
  const error: JsonObject = new Map([["error", result.kind]]);
  return result.kind === "raise" ? error.set("message", result.message) : error;
}

function playPrefix(template: ChatTemplate, record: JsonObject): JsonValue {
  const messages = listOf(record, "messages");
  const addGenerationPrompt = record.get("from") === "generation_prompt";
  const before = render(template, record, { messages, addGenerationPrompt });
  const appended = [...messages, record.get("append") ?? null];
  const after = render(template, record, { messages: appended, addGenerationPrompt: false });
  for (const result of [before, after]) {
    if (result instanceof ChatTemplateError) return new Map([["error", result.kind]]);
  }
  const [left, right] = [Array.from(String(before)), Array.from(String(after))];
  let common = 0;
  while (common < left.length && left[common] === right[common]) common++;
  return new Map<string, JsonValue>([
    ["prefix_stable", common === left.length],
    ["common_prefix_chars", common],
    ["before_chars", left.length],
    ["after_chars", right.length],
  ]);
}

function render(
  template: ChatTemplate,
  record: JsonObject,
  input: { readonly messages: readonly JsonValue[]; readonly addGenerationPrompt: boolean },
): string | ChatTemplateError {
  const context = record.get("context");
  const specialTokens: JsonObject = context instanceof Map ? new Map(context) : new Map();
  const now = specialTokens.get("now");
  specialTokens.delete("now");
  const kwargs = record.get("kwargs");
  try {
    return segmentsText(
      template({
        ...input,
        tools: record.get("tools") ?? null,
        kwargs: kwargs instanceof Map ? kwargs : new Map(),
        context: { specialTokens, now: typeof now === "string" ? now : null },
      }),
    );
  } catch (error) {
    if (error instanceof ChatTemplateError) return error;
    throw error;
  }
}

function listOf(record: JsonObject, key: string): readonly JsonValue[] {
  const value = record.get(key);
  return Array.isArray(value) ? value : [];
}

function compileFound(name: string, goldens: string, options: GoldenSuiteOptions): ChatTemplate | null {
  const text = findChatTemplate(name, goldens, options);
  return text === null ? null : compileChatTemplate(text);
}

/** The chat template of a model in the data folder; `null` if there is none. */
export function findChatTemplate(name: string, goldens: string, { data }: GoldenSuiteOptions): string | null {
  for (const file of ["chat_template.jinja", "tokenizer_config.json"]) {
    const path = join(name, file);
    try {
      const text = readFileSync(join(findData("models", { data, goldens, mustContain: [path] }), path), "utf8");
      const config = file.endsWith(".jinja") ? null : parseJson(text);
      const template = config === null ? text : config instanceof Map ? textOf(config, "chat_template") : null;
      if (template !== null) return template;
    } catch (error) {
      if (!(error instanceof ConfigurationError)) throw error;
    }
  }
  return null;
}
