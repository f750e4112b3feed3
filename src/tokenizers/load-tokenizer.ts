// Tokenizers and model folders from disk: the only file of this module that reads it. Errors name
// the file that was read and the content that it should have.

import { stat } from "node:fs/promises";
import { basename, join, resolve } from "node:path";

import { ConfigurationError, type Tokenizer } from "../core/index.ts";
import { type JsonObject, type JsonValue, parseJson, toPlain } from "../python-semantics/json/index.ts";
import { createTokenizer, type TokenizerDefinition } from "./create-tokenizer.ts";
import type { ModelFolder } from "./model-folder.ts";
import { readRegular } from "../system/regular-file.ts";

/**
 * Loads the tokenizer of a model folder, or makes one from parsed files. Rejects with a
 * `ConfigurationError` that names the file and its expected content.
 */
export async function loadTokenizer(from: string | TokenizerDefinition): Promise<Tokenizer> {
  if (typeof from !== "string") return createTokenizer("tokenizer", from);
  return (await loadModelFolder(from)).tokenizer;
}

/**
 * Loads what a model folder or the metadata of a GGUF file say; the same errors as {@link loadTokenizer}.
 * Of a folder only tokenizer.json must be there.
 *
 * @example
 * const { tokenizer, chatTemplate } = await loadModelFolder("models/Qwen3-4B-Instruct-2507");
 */
export async function loadModelFolder(folder: string): Promise<ModelFolder> {
  if (await isGgufFile(folder)) return (await import("./gguf-model.ts")).loadGgufModel(folder);
  await checkModelFolder(folder);
  const name = basename(resolve(folder));
  const [tokenizerText, jinja, tokenizerConfig, config] = await Promise.all([
    readModelFile(folder, "tokenizer.json"),
    readModelFile(folder, "chat_template.jinja"),
    readObject(folder, "tokenizer_config.json"),
    readObject(folder, "config.json"),
  ]);
  const source = join(folder, "tokenizer.json");
  if (tokenizerText === null) {
    throw new ConfigurationError(
      `Cannot load a tokenizer from "${source}": there is no such file; name a folder with the tokenizer.json of a Hugging ` +
        "Face model.",
    );
  }
  const tokenizerJson = parseModelFile<unknown>(source, tokenizerText, JSON.parse);
  const plainConfig =
    tokenizerConfig && parseModelFile(join(folder, "tokenizer_config.json"), "", () => toPlain(tokenizerConfig));
  const template = tokenizerConfig?.get("chat_template");
  const namedTemplates = readNamedTemplates(template);
  const tokenizer = await createTokenizer(name, { tokenizerJson, tokenizerConfig: plainConfig }, { source });
  return {
    name,
    tokenizer,
    vocabularySize: readVocabularySize(config, join(folder, "config.json")) ?? tokenizer.vocabularySize,
    // The template for tools is preferred: agents here use tools, and models that have one (Hermes)
    // were trained with it.
    chatTemplate:
      jinja ??
      (typeof template === "string" ? template : (namedTemplates.get("tool_use") ?? namedTemplates.get("default"))) ??
      null,
    namedTemplates,
    specialTokens: readSpecialTokens(tokenizerConfig),
    tokenizerConfig,
    config,
  };
}

/**
 * Multimodal models describe their language model in `text_config`. `null` if the size is not
 * stated.
 */
function readVocabularySize(config: JsonObject | null, path: string): number | null {
  const text = config?.get("text_config");
  const size = (text instanceof Map ? text.get("vocab_size") : undefined) ?? config?.get("vocab_size") ?? null;
  if (size === null) return null;
  if (typeof size === "number" && size >= 1 && size <= maxVocabularySize) return size;
  throw new ConfigurationError(
    `Cannot read "${path}": its vocab_size is ${JSON.stringify(toPlain(size))?.slice(0, 40)}, expected a whole number from 1 to ${maxVocabularySize}; download it again.`,
  );
}

/** Four times the largest published vocabulary. */
const maxVocabularySize = 2 ** 20;

async function readObject(folder: string, file: string): Promise<JsonObject | null> {
  const text = await readModelFile(folder, file);
  if (text === null) return null;
  const path = join(folder, file);
  const value = parseModelFile(path, text, parseJson);
  if (value instanceof Map) return value;
  throw new ConfigurationError(`Cannot read "${path}": it holds no JSON object; download it again.`);
}

/** A list of `{"name": ..., "template": ...}`, as written for models with several templates. */
function readNamedTemplates(value: JsonValue | undefined): Map<string, string> {
  const templates = new Map<string, string>();
  for (const entry of Array.isArray(value) ? value : []) {
    const [name, template] = entry instanceof Map ? [entry.get("name"), entry.get("template")] : [];
    if (typeof name === "string" && typeof template === "string") templates.set(name, template);
  }
  return templates;
}

/** Special tokens are written as strings or as added tokens with a "content". */
function readSpecialTokens(config: JsonObject | null): Map<string, string> {
  const tokens = new Map<string, string>();
  for (const [key, value] of config ?? []) {
    const text = value instanceof Map ? value.get("content") : value;
    if (key.endsWith("_token") && typeof text === "string") tokens.set(key, text);
  }
  return tokens;
}

/** Far above the largest published tokenizer.json, which have 35 MB. */
const maxFileBytes = 2 ** 28;

/**
 * The text of a file in a model folder; `null` if it does not exist. Throws a `ConfigurationError`
 * for an unreadable file.
 */
export async function readModelFile(folder: string, name: string): Promise<string | null> {
  const path = join(folder, name);
  try {
    const { size } = await stat(path);
    if (size > maxFileBytes) {
      throw new ConfigurationError(
        `Cannot read "${path}": it has ${size} bytes, expected at most ${maxFileBytes}; download it again.`,
      );
    }
    return await readRegular(path, "utf8");
  } catch (error) {
    if (error instanceof ConfigurationError) throw error;
    const code = errorCode(error);
    if (code === "ENOENT") return null;
    throw new ConfigurationError(`Cannot read "${path}": ${code}; name a readable file.`, { cause: error });
  }
}

/** True for a file whose name or beginning is that of GGUF files; Ollama's have no extension. */
async function isGgufFile(path: string): Promise<boolean> {
  const isFile = await stat(path).then(
    (found) => found.isFile(),
    () => false,
  );
  if (!isFile) return path.endsWith(".gguf");
  return path.endsWith(".gguf") || (await import("./gguf-metadata.ts")).isGguf(path);
}

/** Checks that the model folder exists before any of its files is reported as missing. */
async function checkModelFolder(folder: string): Promise<void> {
  const found = await stat(folder).catch((error: unknown) => errorCode(error));
  if (typeof found !== "string" && found.isDirectory()) return;
  const state =
    typeof found !== "string" ? "it is a file, and not GGUF" : found === "ENOENT" ? "there is no such folder" : found;
  throw new ConfigurationError(
    `Cannot load a model from "${folder}": ${state}; name a folder with tokenizer.json and tokenizer_config.json, as ` +
      "downloaded from the Hugging Face hub.",
  );
}

/**
 * Parses a file's text with `parse`; an error names the file and shows the beginning of its text.
 */
function parseModelFile<Parsed>(path: string, text: string, parse: (text: string) => Parsed): Parsed {
  try {
    return parse(text);
  } catch (error) {
    if (error instanceof RangeError) {
      throw new ConfigurationError(`Cannot read "${path}": it is nested too deeply; download it again.`, {
        cause: error,
      });
    }
    const state = text.startsWith("version https://git-lfs")
      ? "it is a Git LFS pointer, not the file itself; run git lfs pull in the folder"
      : `it is not JSON (it begins ${JSON.stringify(text.slice(0, 24))}); download it again`;
    throw new ConfigurationError(`Cannot read "${path}": ${state}.`, { cause: error });
  }
}

function errorCode(error: unknown): string {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : String(error);
}
