// The engine for a GGUF file: planned to fit into memory, and with the tokens of the tokenizer.

import { stat } from "node:fs/promises";
import { freemem } from "node:os";
import { resolve } from "node:path";

import { ConfigurationError } from "../core/index.ts";
import { createLlamaCppEngine } from "../engines/llama-cpp/index.ts";
import { readGgufMetadata } from "../tokenizers/gguf-metadata.ts";
import { type ConnectedEngine, type EngineParts, here } from "./connected-engine.ts";
import { planMemory } from "./gguf-memory.ts";
import { concurrencyBounds } from "./rollout-settings.ts";

/** More sequences make a turn slower on a processor, and gain little. */
const mostSequences = 8;

/** Rejects with a `ConfigurationError` if the file cannot be used. */
export async function openGguf({ settings, model, cwd, onNotice }: EngineParts): Promise<ConnectedEngine> {
  const { gguf, concurrency, maxContextTokens: contextTokens } = settings;
  const modelPath = resolve(cwd, gguf ?? "");
  const metadata = await readGgufMetadata(modelPath);
  const { size: fileBytes } = await stat(modelPath);
  const wanted = Math.min(mostSequences, concurrencyBounds(concurrency).ceiling);
  const engine = await createLlamaCppEngine({
    modelPath,
    ...(contextTokens === null ? {} : { contextTokens }),
    sequences: (gpu) => {
      // The library plans the memory of graphics cards.
      if (gpu !== false) return wanted;
      const request = { path: modelPath, fileBytes, metadata, sequences: wanted, contextTokens };
      const { sequences, notice } = planMemory({ ...request, freeBytes: freeBytes() });
      if (notice !== null) onNotice(notice);
      return sequences;
    },
  });
  const { vocabularySize } = engine.limits;
  // A vocabulary larger than the tokenizer's is common: weights are padded.
  if (model.tokenizer.vocabularySize <= vocabularySize) return here(engine);
  await engine.close();
  throw new ConfigurationError(
    `Cannot run "${modelPath}" with this tokenizer: it has ${model.tokenizer.vocabularySize} tokens, the file ${vocabularySize}; ` +
      "remove --model, or name the folder of the same model.",
  );
}

/** Memory that this process may still take: of the machine, or of the container that limits it. */
function freeBytes(): number {
  return Math.min(freemem(), process.availableMemory?.() ?? Infinity);
}
