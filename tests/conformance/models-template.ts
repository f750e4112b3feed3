// Golden files `render.NAME` and `prefix.NAME` again, this time through the fallback: the model's own Jinja program, found in
// the data folder, run as transformers runs it. Every template is played, with a native renderer or without.

import { readFileSync } from "node:fs";
import { join } from "node:path";

import { ConfigurationError } from "#src/core/index.ts";
import { type JsonValue, parseJson } from "#src/python-semantics/json/index.ts";
import { type ChatTemplate, compileChatTemplate } from "#src/renderers/index.ts";
import { findData } from "./find-data.ts";
import { GoldenTally, readGoldenFile, textOf } from "./golden-file.ts";
import { playTemplateRecord, renderFileName } from "./models-render.ts";
import type { GoldenFileReport, GoldenSuiteOptions } from "./suite.ts";

/** Plays one file; `null` when its name is none of ours. Records whose chat template is missing are unsupported. */
export async function runTemplateGoldens(
  folder: string,
  file: string,
  options: GoldenSuiteOptions,
): Promise<GoldenFileReport | null> {
  const parts = renderFileName(file);
  if (parts === null) return null;
  const tally = new GoldenTally(`${file} (its own template)`);
  const compiled = new Map<string, ChatTemplate | null>();
  for (const record of await readGoldenFile(join(folder, file))) {
    const name = textOf(record, "template") ?? parts.name;
    if (!compiled.has(name)) compiled.set(name, findTemplate(name, folder, options));
    const template = compiled.get(name) ?? null;
    if (template === null) tally.unsupported(`no chat template of ${name} in the data (${name}/chat_template.jinja)`);
    else playTemplateRecord(tally, { kind: parts.kind, template, record });
  }
  return tally.report();
}

function findTemplate(name: string, goldens: string, { data }: GoldenSuiteOptions): ChatTemplate | null {
  for (const file of ["chat_template.jinja", "tokenizer_config.json"]) {
    const path = join(name, file);
    try {
      const text = readFileSync(join(findData("models", { data, goldens, mustContain: [path] }), path), "utf8");
      const template = file.endsWith(".jinja") ? text : templateOf(parseJson(text));
      if (template !== null) return compileChatTemplate(template);
    } catch (error) {
      if (!(error instanceof ConfigurationError)) throw error;
    }
  }
  return null;
}

function templateOf(tokenizerConfig: JsonValue): string | null {
  return tokenizerConfig instanceof Map ? textOf(tokenizerConfig, "chat_template") : null;
}
