// Opens the engine for a run, from its options: planned to fit into memory, and with the tokens of
// the tokenizer.

import { hash } from "node:crypto";
import { stat } from "node:fs/promises";
import { freemem } from "node:os";
import { resolve } from "node:path";

import { ConfigurationError } from "../../core/index.ts";
import type { EngineContext, OpenedEngine } from "../../parts/engine.ts";
import type { SettingValues } from "../../parts/setting.ts";
import { readGgufMetadata } from "../../tokenizers/gguf-metadata.ts";
import { readRegular } from "../../system/regular-file.ts";
import { planMemory } from "./gguf-memory.ts";
import { createLlamaCppEngine } from "./llama-cpp-engine.ts";
import type { llamaCppOptions } from "./options.ts";

/** More sequences make a turn slower on a processor, and gain little. */
const mostSequences = 8;

/** Rejects with a `ConfigurationError` if the file cannot be used. */
export async function openEngine({
  options: { gguf, ggufAdapter },
  model: { tokenizer },
  concurrency,
  maxContextTokens: contextTokens,
  cwd,
  onNotice,
}: EngineContext<SettingValues<typeof llamaCppOptions>>): Promise<OpenedEngine> {
  const modelPath = resolve(cwd, gguf ?? "");
  const metadata = await readGgufMetadata(modelPath);
  const { size: fileBytes } = await stat(modelPath);
  const adapterPath = ggufAdapter === null ? null : resolve(cwd, ggufAdapter);
  const weightVersion = adapterPath === null ? null : await adapterVersion(adapterPath);
  const requested = Math.min(mostSequences, concurrency);
  const engine = await createLlamaCppEngine({
    modelPath,
    weightVersion,
    ...(adapterPath === null ? {} : { adapterPath }),
    ...(contextTokens === null ? {} : { contextTokens }),
    sequences: (gpu) => {
      // The library plans the memory of graphics cards.
      if (gpu !== false) return requested;
      const request = { path: modelPath, fileBytes, metadata, sequences: requested, contextTokens };
      const { sequences, notice } = planMemory({ ...request, freeBytes: freeBytes() });
      if (notice !== null) onNotice(notice);
      return sequences;
    },
  });
  const { vocabularySize } = engine.limits;
  // A vocabulary larger than the tokenizer's is common: weights are padded.
  if (tokenizer.vocabularySize <= vocabularySize) return { engine, weightVersion };
  await engine.close();
  throw new ConfigurationError(
    `Cannot run "${modelPath}" with this tokenizer: it has ${tokenizer.vocabularySize} tokens, the file ${vocabularySize}; ` +
      "remove --model, or name the folder of the same model.",
  );
}

/** Weight version of a model with an adapter: the beginning of the adapter's SHA-256. */
async function adapterVersion(path: string): Promise<string> {
  const bytes = await readRegular(path).catch((cause: unknown) => {
    throw new ConfigurationError(`Cannot load the adapter "${path}": it cannot be read; correct --gguf-adapter.`, {
      cause,
    });
  });
  return `adapter-${hash("sha256", bytes).slice(0, 12)}`;
}

/** Memory that this process may still take: of the machine, or of the container that limits it. */
function freeBytes(): number {
  return Math.min(freemem(), process.availableMemory?.() ?? Infinity);
}
