// Chooses the writer of the prompts of a model folder: its chat template or, without one, the
// encoder for its type of model. The encoder takes the vendor's sentences from files of the folder.

import { join } from "node:path";

import { ConfigurationError } from "../core/index.ts";
import { loadTemplateParsers } from "../parsers/on-demand.ts";
import { encoderOf, type RendererOptions, type TemplateSource } from "../renderers/on-demand.ts";
import { type ModelFolder, readModelFile } from "../tokenizers/index.ts";

/**
 * The chat template of a model folder, or its encoder; `null` if it has neither. Rejects with a
 * `ConfigurationError` for an unreadable file, and for a type of model that needs an encoder which
 * this package lacks.
 */
export async function templateSourceOf(model: ModelFolder, folder: string): Promise<TemplateSource | null> {
  if (model.chatTemplate !== null) return model.chatTemplate;
  const encoder = encoderOf(model.config);
  if (encoder === null) return null;
  const contents = await Promise.all(
    encoder.files.map(async (file) => {
      const content = await readModelFile(folder, file);
      if (content === null || content.length <= maxModuleLength) return content;
      throw new ConfigurationError(
        `Cannot read "${join(folder, file)}": it has ${content.length} characters, expected at most ${maxModuleLength}; download it again.`,
      );
    }),
  );
  return encoder.load(contents.filter((content) => content !== null));
}

/** The parsers of the checkpoint's own response template, if it has one. */
export async function ownParsers({ tokenizerConfig }: ModelFolder): Promise<Pick<RendererOptions, "responseTemplate">> {
  const template = tokenizerConfig?.get("response_template") ?? null;
  return template === null ? {} : { responseTemplate: await loadTemplateParsers(template) };
}

/** Forty times the length of the longest of these modules. */
const maxModuleLength = 2 ** 20;
