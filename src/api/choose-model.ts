// The tokenizer and the renderer of a rollout: from a model folder, a shipped one included, or the readable ones of the
// demonstration; and the end tokens that a folder names.

import { dirname, join } from "node:path";

import { defaultToolInstruction, toolInstructionEdit } from "../agents/on-demand.ts";
import { ConfigurationError, type Renderer, type Tokenizer } from "../core/index.ts";
import { fromPlain, type JsonObject, toPlain } from "../python-semantics/json/index.ts";
import { bundledChatTemplate, bundledToolSentence, loadRenderer, type TemplateSource } from "../renderers/on-demand.ts";
import { createReadableTokenizer } from "../tokenizers/readable-tokenizer.ts";
import type { RolloutSettings } from "./rollout-settings.ts";
import { readNamedFile } from "./surroundings.ts";
import { jsonOf } from "../lib/text.ts";
import { readRegular } from "../system/regular-file.ts";

/** Empty when the folder names no end token. Throws a `ConfigurationError` for invalid files. */
export async function readEndTokens(folder: string): Promise<readonly number[]> {
  for (const name of ["generation_config.json", "config.json"]) {
    const fields = await readFields(folder, name);
    const given = fields?.["eos_token_id"];
    if (given === undefined || given === null) continue;
    const ids: readonly unknown[] = Array.isArray(given) ? given : [given];
    const tokens = ids.filter((id): id is number => Number.isSafeInteger(id) && Number(id) >= 0);
    if (tokens.length === ids.length) return tokens;
    throw new ConfigurationError(
      `Cannot use ${join(folder, name)}: eos_token_id is ${JSON.stringify(given).slice(0, 60)}, expected a token id or a list of them.`,
    );
  }
  return [];
}

async function readFields(folder: string, name: string): Promise<Readonly<Record<string, unknown>> | null> {
  const path = join(folder, name);
  let text: string;
  try {
    text = await readRegular(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
  const value = jsonOf(text);
  if (typeof value === "object" && value !== null) return value as Readonly<Record<string, unknown>>;
  throw new ConfigurationError(`Cannot use ${path}: it is not a JSON object; download the folder again.`);
}

/**
 * Names the tokenizer of the demonstrations instead of a folder: fake servers and tests then need
 * no files.
 */
export const readableModel = "readable";

export type ChosenModel = {
  /** The name that the user gave; `null` for the readable tokenizer without files. */
  readonly folder: string | null;
  readonly tokenizer: Tokenizer;
  readonly renderer: Renderer;
  /** The Jinja program of the folder, or the encoder of a model without one. */
  readonly chatTemplate: TemplateSource;
  /** `bos_token`, ... of tokenizer_config.json. */
  readonly specialTokens: ReadonlyMap<string, string>;
};

/**
 * Loads the model that the settings name. Throws a `ConfigurationError` for missing files and
 * conflicting settings.
 */
export async function chooseModel(settings: RolloutSettings, cwd: string): Promise<ChosenModel> {
  // Our own instruction requests one call per turn.
  const isOwn = settings.toolInstruction === null && settings.calls === "several";
  const instruction = isOwn ? null : await readToolInstruction(settings.toolInstruction, cwd);
  const optionsFor = (template: TemplateSource | null) => ({
    historyPolicy: settings.history,
    // Our own wording is used if a template has the sentence that it replaces; for requested
    // wording, the sentence must be there. The models that this package trains are too small to
    // understand other wording than they were trained with.
    promptEdits:
      instruction === null || (settings.toolInstruction === null && template === bundledChatTemplate)
        ? []
        : [
            {
              // Without a folder the template is the bundled one.
              ...(template === null || template === bundledChatTemplate
                ? toolInstructionEdit(instruction, bundledToolSentence)
                : toolInstructionEdit(instruction)),
              whenMissing: settings.toolInstruction === null ? ("skip" as const) : ("refuse" as const),
            },
          ],
    parseMode: settings.parserMode,
    controlTokens: settings.controlTokens,
    repair: settings.repair,
    ...(settings.toolParser === null ? {} : { toolCallParser: settings.toolParser }),
    ...(settings.reasoningParser === null ? {} : { reasoningParser: settings.reasoningParser }),
    ...(settings.thinking === null ? {} : { thinking: settings.thinking === "on" }),
    templateKwargs: fromPlain(settings.templateKwargs) as JsonObject,
  });
  if (settings.model === null || settings.model === readableModel) {
    const tokenizer = createReadableTokenizer();
    const chatTemplate = bundledChatTemplate;
    const options = { ...optionsFor(null), tokenizer, chatTemplate };
    const renderer = await loadRenderer(settings.renderer ?? "qwen2.5-instruct", options);
    return { folder: null, tokenizer, renderer, chatTemplate, specialTokens: new Map() };
  }
  const folder = settings.model;
  const { loadModelFolder } = await import("../tokenizers/index.ts");
  const { modelPath } = await import("./model-path.ts");
  const { ownParsers, templateSourceOf } = await import("./choose-template.ts");
  const model = await loadModelFolder(modelPath(folder, cwd));
  const { tokenizer, vocabularySize, specialTokens } = model;
  const chatTemplate = await templateSourceOf(model, modelPath(folder, cwd));
  if (chatTemplate === null) {
    if (settings.gguf !== null && folder === settings.gguf) {
      throw new ConfigurationError(
        `Cannot render prompts for "${folder}": its metadata have no chat template (tokenizer.chat_template); name the ` +
          "folder of the model's tokenizer.json and chat template with --model.",
      );
    }
    throw new ConfigurationError(
      `Cannot render prompts for "${folder}": the folder has no chat template (chat_template.jinja, or chat_template in ` +
        "tokenizer_config.json); add the file from the model's publisher.",
    );
  }
  const responseTemplate = await ownParsers(model);
  const options = {
    ...optionsFor(chatTemplate),
    ...responseTemplate,
    vocabularySize,
    tokenizer,
    chatTemplate,
    specialTokens,
  };
  const renderer = await loadRenderer(settings.renderer, options);
  return { folder, tokenizer, renderer, chatTemplate, specialTokens };
}

/** Variables of a renderer's chat template, under their names in rows. */
export function templateKwargsOf(
  renderer: Pick<Renderer, "templateKwargs"> | undefined,
): Readonly<Record<string, unknown>> {
  return toPlain(renderer?.templateKwargs ?? new Map()) as Readonly<Record<string, unknown>>;
}

/**
 * The decoder of a recorded run; `null` when its model folder no longer exists. A run records the
 * folder as it was given, relative to where it began: it is looked up from `cwd`, then from `run`,
 * the run's own folder, and the folders above it. @default `run`: the run's folder is not searched
 */
export async function tokenizerOf(folder: string | null, cwd: string, run?: string): Promise<Tokenizer | null> {
  if (folder === null) return createReadableTokenizer();
  const { loadModelFolder } = await import("../tokenizers/index.ts");
  const { modelPath } = await import("./model-path.ts");
  for (const place of [cwd, ...(run === undefined ? [] : foldersAbove(run))]) {
    try {
      return (await loadModelFolder(modelPath(folder, place))).tokenizer;
    } catch (error) {
      if (!(error instanceof ConfigurationError)) throw error;
    }
  }
  return null;
}

/** A folder and all those above it. */
function foldersAbove(folder: string): string[] {
  const above = dirname(folder);
  return above === folder ? [folder] : [folder, ...foldersAbove(above)];
}

/** `null` if the template keeps its own wording. */
async function readToolInstruction(setting: string | null, cwd: string): Promise<string | null> {
  if (setting === null) return defaultToolInstruction;
  if (setting === "none") return null;
  return (await readNamedFile(setting, cwd, "correct --tool-instruction.")).trimEnd();
}
