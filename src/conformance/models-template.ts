// Golden files `render.NAME` and `prefix.NAME` again, this time through the fallback: the model's own Jinja program, found in
// the data folder, run as transformers runs it. Every template is played, with a native renderer or without.

import { readFileSync } from "node:fs";
import { join } from "node:path";

import { ConfigurationError } from "../core/index.ts";
import { type ChatTemplate, compileChatTemplate } from "../renderers/index.ts";
import { findData } from "./find-data.ts";
import { GoldenTally, readGoldenFile, textOf } from "./golden-file.ts";
import { playTemplateRecord, renderFileName } from "./models-render.ts";
import type { GoldenFileReport, GoldenSuiteOptions } from "./suite.ts";

/** Plays one file; `null` when its name is none of ours. Records whose chat_template.jinja is missing are unsupported. */
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
    if (template === null) tally.unsupported(`no ${name}/chat_template.jinja in the data`);
    else playTemplateRecord(tally, { kind: parts.kind, template, record });
  }
  return tally.report();
}

function findTemplate(name: string, goldens: string, { data }: GoldenSuiteOptions): ChatTemplate | null {
  const path = join(name, "chat_template.jinja");
  try {
    return compileChatTemplate(
      readFileSync(join(findData("models", { data, goldens, mustContain: [path] }), path), "utf8"),
    );
  } catch (error) {
    if (error instanceof ConfigurationError) return null;
    throw error;
  }
}
