// What writes the prompts of a model folder: its chat template, else the encoder for models of its kind, with the vendor's sentences
// out of the folder's own files.

import { encoderOf, type TemplateSource } from "../renderers/index.ts";
import { type ModelFolder, readModelFile } from "../tokenizers/index.ts";

/**
 * The chat template of a model folder, or its encoder. `null`: it has neither. Rejects with a `ConfigurationError` for a file that
 * cannot be read, and for a kind of model whose prompts are made by code that there is no encoder for.
 */
export async function templateSourceOf(model: ModelFolder, folder: string): Promise<TemplateSource | null> {
  if (model.chatTemplate !== null) return model.chatTemplate;
  const encoder = encoderOf(model.config);
  if (encoder === null) return null;
  const contents = await Promise.all(encoder.files.map((file) => readModelFile(folder, file)));
  return encoder.load(contents.filter((content) => content !== null));
}
