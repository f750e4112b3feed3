// What a data folder offers beside the environment itself: prompts for simulated users, and displays for agents that are
// shown examples. From a prepared folder or from a checkout alike; a folder made by other means may have neither.

import { readFile } from "node:fs/promises";
import { join } from "node:path";

import { ConfigurationError } from "../../../core/index.ts";
import {
  displaysFile,
  isTauBenchCheckout,
  parseDisplays,
  readTauBenchCheckout,
  userPromptsFile,
} from "./read-checkout.ts";
import { readCheckoutFileIfAny } from "./read-checkout-file.ts";
import { upstreamDomains } from "./upstream.ts";
import { parseUserPrompts, type TauUserPrompts } from "./user-prompts.ts";

/** Upstream's prompts for simulated users; `null` when the folder has none. Throws a `ConfigurationError` when they are damaged. */
export async function loadUserPrompts(folder: string): Promise<TauUserPrompts | null> {
  const text = (await isTauBenchCheckout(folder))
    ? ((await readTauBenchCheckout(folder, { domains: [] })).get(userPromptsFile) ?? null)
    : await readPrepared(folder, userPromptsFile);
  return text === null ? null : parseUserPrompts(text, join(folder, userPromptsFile));
}

/**
 * Upstream's examples of conversations in one domain ("retail", "airline"); `null` when the folder has none. Throws a
 * `ConfigurationError` when they are damaged.
 */
export async function loadFewShotDisplays(folder: string, domain: string): Promise<readonly string[] | null> {
  const isCheckout = await isTauBenchCheckout(folder);
  const upstream = upstreamDomains.find(({ name }) => name === domain)?.displays;
  const path = isCheckout && upstream !== undefined ? upstream : `${domain}/${displaysFile}`;
  const text = isCheckout ? await readCheckoutFileIfAny(folder, path) : await readPrepared(folder, path);
  return text === null ? null : parseDisplays(text, path);
}

async function readPrepared(folder: string, path: string): Promise<string | null> {
  try {
    return await readFile(join(folder, path), "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return null;
    throw new ConfigurationError(`Cannot read "${join(folder, path)}": ${String(error)}; correct or remove it.`, {
      cause: error,
    });
  }
}
