// auditTemplate(): reports how the loop handles the chat template of a model folder, before
// anything is trained.

import { ConfigurationError } from "../core/index.ts";
import { fromPlain, type JsonObject } from "../python-semantics/json/index.ts";
import { auditTemplate as audit, type TemplateAudit, type TemplateSource } from "../renderers/index.ts";
import { loadModelFolder, type ModelFolder } from "../tokenizers/index.ts";
import { modelPath } from "./model-path.ts";
import { ownParsers, templateSourceOf } from "./choose-template.ts";
import type { RolloutSettingOptions } from "./options.ts";
import { rolloutSettings } from "./rollout-settings.ts";
import { readFlag } from "../parts/setting.ts";
import { readNamedFile } from "./surroundings.ts";

/** Remedy for a --template that is not a file. */
export const templateRemedy = "correct --template, which names a Jinja file.";

/** Options of {@link auditTemplate}: the flags of the command `doctor template` in camelCase. */
export type AuditTemplateOptions = Pick<
  RolloutSettingOptions,
  "renderer" | "history" | "thinking" | "templateKwargs"
> & {
  /** Model folder with tokenizer.json and a chat template; needs no weights. */
  readonly model: string;
  /** Jinja file to use instead of the folder's chat template. @default the folder's */
  readonly template?: string;
  /** Folder that relative paths start from. @default process.cwd() */
  readonly cwd?: string;
};

/** The public function of this name: `functions.ts`. */
export async function auditTemplate(options: AuditTemplateOptions): Promise<TemplateAudit> {
  const { model: folder, template: file = null, cwd = process.cwd() } = options;
  const thinking = readFlag(rolloutSettings.thinking, options.thinking);
  const history = readFlag(rolloutSettings.history, options.history);
  const renderer = readFlag(rolloutSettings.renderer, options.renderer);
  const model = await loadModelFolder(modelPath(folder, cwd));
  const { tokenizer, specialTokens } = model;
  const chatTemplate = await templateOf(model, { folder, file, cwd });
  const templateKwargs = fromPlain(readFlag(rolloutSettings.templateKwargs, options.templateKwargs)) as JsonObject;
  const switches = { renderer, history, thinking: thinking === null ? null : thinking === "on", templateKwargs };
  const found = audit({ tokenizer, chatTemplate, specialTokens, ...switches, ...(await ownParsers(model)) });
  return { ...found, notes: [...found.notes, ...otherTemplates(model, file)] };
}

async function templateOf(
  model: ModelFolder,
  { folder, file, cwd }: { readonly folder: string; readonly file: string | null; readonly cwd: string },
): Promise<TemplateSource> {
  if (file !== null) return readNamedFile(file, cwd, templateRemedy);
  const chatTemplate = await templateSourceOf(model, modelPath(folder, cwd));
  if (chatTemplate !== null) return chatTemplate;
  throw new ConfigurationError(
    `Cannot examine the template of "${folder}": the folder has none (chat_template.jinja, or chat_template in ` +
      "tokenizer_config.json); add it, or name a file with --template.",
  );
}

/** Models with several templates have a separate one for tools, which is easily missed. */
function otherTemplates({ namedTemplates }: ModelFolder, file: string | null): string[] {
  const others = [...namedTemplates.keys()].filter((name) => name !== "default");
  if (others.length === 0 || file !== null) return [];
  const names = others.map((name) => `"${name}"`).join(", ");
  return [`tokenizer_config.json has more templates (${names}); to use one, write it to chat_template.jinja.`];
}
