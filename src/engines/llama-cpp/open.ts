// Opens the engine for a run, from its options.

import { resolve } from "node:path";
import { ConfigurationError } from "../../core/index.ts";
import type { EngineContext, OpenedEngine } from "../../parts/engine.ts";
import type { SettingValues } from "../../parts/setting.ts";
import { createLlamaCppEngine } from "./llama-cpp-engine.ts";
import type { llamaCppOptions } from "./options.ts";

/** Rejects with a `ConfigurationError` if the file cannot be loaded, or its vocabulary is not the tokenizer's. */
export async function openEngine({
  options: { gguf },
  model: { tokenizer },
  concurrency,
  maxContextTokens,
  cwd,
}: EngineContext<SettingValues<typeof llamaCppOptions>>): Promise<OpenedEngine> {
  const modelPath = resolve(cwd, gguf ?? "");
  const engine = await createLlamaCppEngine({
    modelPath,
    sequences: Math.min(8, concurrency),
    ...(maxContextTokens === null ? {} : { contextTokens: maxContextTokens }),
  });
  const { vocabularySize } = engine.limits;
  // A vocabulary larger than the tokenizer's is common: weights are padded.
  if (tokenizer.vocabularySize <= vocabularySize) return { engine, weightVersion: null };
  await engine.close();
  throw new ConfigurationError(
    `Cannot run "${modelPath}" with this tokenizer: it has ${tokenizer.vocabularySize} tokens, the file ${vocabularySize}; ` +
      "name the folder of the same model with --model.",
  );
}
