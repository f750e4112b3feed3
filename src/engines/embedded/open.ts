// Opens the engine for a run.

import { ConfigurationError } from "../../core/index.ts";
import type { EngineContext, OpenedEngine } from "../../parts/engine.ts";
import { loadEmbeddedEngine } from "./embedded-engine.ts";

/** Rejects with a `ConfigurationError` if the model has no weights. */
export async function openEngine({ model: { folder } }: EngineContext<unknown>): Promise<OpenedEngine> {
  if (folder !== null) return { engine: await loadEmbeddedEngine(folder), weightVersion: null };
  throw new ConfigurationError(
    'Cannot run the embedded engine: "readable" names a tokenizer without a model; remove --model, or name a model folder.',
  );
}
