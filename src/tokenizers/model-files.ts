// Reading the files of a model folder, with errors that say which file was looked for and what it should hold. The only
// file of this room that touches the disk.

import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";

import { ConfigurationError } from "../core/index.ts";

/** The largest published tokenizer.json have 35 MB. */
const maxFileBytes = 2 ** 28;

/** The text of a file in a model folder; `null` when there is none. Throws a `ConfigurationError` for anything unreadable. */
export async function readModelFile(folder: string, name: string): Promise<string | null> {
  const path = join(folder, name);
  try {
    const { size } = await stat(path);
    if (size > maxFileBytes) {
      throw new ConfigurationError(
        `Cannot read "${path}": it has ${size} bytes, at most ${maxFileBytes} expected; download it again.`,
      );
    }
    return await readFile(path, "utf8");
  } catch (error) {
    if (error instanceof ConfigurationError) throw error;
    const code = errorCode(error);
    if (code === "ENOENT") return null;
    throw new ConfigurationError(`Cannot read "${path}": ${code}; a readable file is wanted.`, { cause: error });
  }
}

/** A model folder must be there before its files can be missed. */
export async function checkModelFolder(folder: string): Promise<void> {
  const found = await stat(folder).catch((error: unknown) => errorCode(error));
  if (typeof found !== "string" && found.isDirectory()) return;
  const state = typeof found !== "string" ? "it is a file" : found === "ENOENT" ? "there is no such folder" : found;
  throw new ConfigurationError(
    `Cannot load a model from "${folder}": ${state}; name a folder with tokenizer.json and tokenizer_config.json, as ` +
      "downloaded from the Hugging Face hub.",
  );
}

/** Parses a file's text with `parse`; a failure names the file and shows how its text begins. */
export function parseModelFile<Parsed>(path: string, text: string, parse: (text: string) => Parsed): Parsed {
  try {
    return parse(text);
  } catch (error) {
    if (error instanceof RangeError) {
      throw new ConfigurationError(`Cannot read "${path}": it is nested too deep; download it again.`, {
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
