// The end tokens that a model folder names, as servers read them: `eos_token_id` of generation_config.json, else of
// config.json; one id or several.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { ConfigurationError } from "../core/index.ts";

/** Empty when the folder names none. Throws a `ConfigurationError` for files that are not what they should be. */
export async function readEndTokens(folder: string): Promise<readonly number[]> {
  for (const name of ["generation_config.json", "config.json"]) {
    const fields = await readFields(folder, name);
    const given = fields?.["eos_token_id"];
    if (given === undefined || given === null) continue;
    const ids: readonly unknown[] = Array.isArray(given) ? given : [given];
    const tokens = ids.filter((id): id is number => Number.isSafeInteger(id) && Number(id) >= 0);
    if (tokens.length === ids.length) return tokens;
    throw new ConfigurationError(
      `Cannot use ${join(folder, name)}: eos_token_id is ${JSON.stringify(given).slice(0, 60)}, a token id or a list of them is needed.`,
    );
  }
  return [];
}

async function readFields(folder: string, name: string): Promise<Readonly<Record<string, unknown>> | null> {
  const path = join(folder, name);
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null) return value as Readonly<Record<string, unknown>>;
  } catch {
    // Told below, like every other content that is no object.
  }
  throw new ConfigurationError(`Cannot use ${path}: it is not a JSON object; download the folder again.`);
}
