// Golden files `render.NAME` and `prefix.NAME`: what transformers' own template compiler renders, and whether adding a
// message leaves the text before it as it was. Here through the native renderers; `models-template.ts` plays the same files
// through the fallback. Part of the suite `models`.

import { join } from "node:path";

import type { JsonObject, JsonValue } from "#src/python-semantics/json/index.ts";
import {
  type ChatTemplate,
  ChatTemplateError,
  rendererFamily,
  rendererFamilyNames,
  segmentsText,
} from "#src/renderers/index.ts";
import { GoldenTally, readGoldenFile, textOf } from "./golden-file.ts";
import type { GoldenFileReport } from "./suite.ts";

const names = /^(render|prefix)\.(.+)\.jsonl$/;

/** What a file's name says; `null` when it is none of ours. */
export function renderFileName(file: string): { readonly kind: string; readonly name: string } | null {
  const [, kind, name] = names.exec(file) ?? [];
  return kind === undefined || name === undefined ? null : { kind, name };
}

/** Plays one file; `null` when its name is none of ours. Records of a template without a native renderer are unsupported. */
export async function runRenderGoldens(folder: string, file: string): Promise<GoldenFileReport | null> {
  const parts = renderFileName(file);
  if (parts === null) return null;
  const { kind, name } = parts;
  const tally = new GoldenTally(file);
  for (const record of await readGoldenFile(join(folder, file))) {
    const template = nativeTemplate(textOf(record, "template") ?? name);
    if (template === null) tally.unsupported(`no native renderer for ${name} yet`);
    else playTemplateRecord(tally, { kind, template, record });
  }
  return tally.report();
}

export type TemplateRecord = { readonly kind: string; readonly template: ChatTemplate; readonly record: JsonObject };

/** Compares what the template makes of one record with what was recorded. */
export function playTemplateRecord(tally: GoldenTally, { kind, template, record }: TemplateRecord): void {
  const expected = record.get("expected") ?? null;
  if (kind === "prefix") tally.compare(record, expected, () => playPrefix(template, record));
  else tally.compare(record, withoutMessage(expected), () => playRender(template, record));
}

function nativeTemplate(name: string): ChatTemplate | null {
  return rendererFamilyNames.includes(name) ? rendererFamily(name).template : null;
}

/** The words of an error are compared only where the template itself chose them. */
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
