// The folder of the model that a flag names: a shipped model by its name, or a folder.

import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { ConfigurationError } from "../core/index.ts";
import { type ShippedCheckpoint, shippedCheckpoint, shippedCheckpoints } from "../learner/model/shipped-checkpoints.ts";
import { suggestion } from "../lib/nearest.ts";
import type { RolloutSettings } from "./rollout-settings.ts";

/**
 * Location of the model that a flag names: a shipped model by its name, or a folder. Throws a
 * `ConfigurationError` for the name of a model on a hub, because nothing here downloads.
 */
export function modelPath(model: string, cwd: string): string {
  const path = resolve(cwd, modelFolder(model));
  if (/^\w[\w.-]*\/[\w.-]+$/.test(model) && !existsSync(path)) {
    const folder = `./${model.slice(model.indexOf("/") + 1)}`;
    throw new ConfigurationError(
      `Cannot load model "${model}": there is no such folder, and nothing is downloaded here. If it is a model of the Hugging Face ` +
        `hub, download all but its weights with: hf download ${model} --local-dir ${folder} --exclude "*.safetensors" ` +
        `(pip install huggingface_hub), and name the folder: ${folder}`,
    );
  }
  const near = /^[\w.-]+$/.test(model) && !existsSync(path) ? suggestion(model, shippedCheckpoints) : null;
  if (near !== null) throw new ConfigurationError(`Cannot load model "${model}": there is no such folder; ${near}`);
  return path;
}

/** The folder of a named shipped model; any other value is already a folder. */
function modelFolder(model: string): string {
  const isShipped = shippedCheckpoints.includes(model as ShippedCheckpoint);
  return isShipped ? shippedCheckpoint(model as ShippedCheckpoint) : model;
}

/**
 * The settings with the folder of a shipped checkpoint in place of its name. Without a model, the
 * GGUF file of the weights says what a folder would, and the embedded engine has a default
 * checkpoint.
 */
export function withShippedModel(settings: RolloutSettings): RolloutSettings {
  const name = settings.model ?? settings.gguf ?? (settings.engine === "embedded" ? "bookshop-1m" : null);
  return name === null ? settings : { ...settings, model: modelFolder(name) };
}
