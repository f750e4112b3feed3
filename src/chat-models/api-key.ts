// Finds the API key of a provider, in an option or an environment variable. A key is sent only to
// its own host: a variable that is read by default belongs to a fixed host.

import { ConfigurationError } from "../core/index.ts";
import type { BaseUrl } from "../http/index.ts";
import type { ModelPart } from "./model-failure.ts";

export type KeyOptions = {
  /** The API key. Prefer a variable, because other processes can see the flags of a command. */
  readonly apiKey?: string | undefined;
  /**
   * Name of the environment variable that holds the key. Default: the usual one of a known host,
   * see {@link keyVariables}.
   */
  readonly apiKeyVariable?: string | undefined;
  /** Default: `process.env`. */
  readonly variables?: Readonly<Record<string, string | undefined>> | undefined;
};

/** Default variable for each host; any other host gets no key unless one is given. */
export const keyVariables: Readonly<Record<string, string>> = Object.freeze({
  "api.openai.com": "OPENAI_API_KEY",
  "openrouter.ai": "OPENROUTER_API_KEY",
  "api.deepseek.com": "DEEPSEEK_API_KEY",
  "api.fireworks.ai": "FIREWORKS_API_KEY",
  "api.groq.com": "GROQ_API_KEY",
  "api.mistral.ai": "MISTRAL_API_KEY",
  "api.together.xyz": "TOGETHER_API_KEY",
  "generativelanguage.googleapis.com": "GEMINI_API_KEY",
});

/**
 * The key from the options, else from the first of `defaults` that is set; `null` if there is none.
 * Throws a `ConfigurationError` if the named variable is not set, or if the key is invalid in a
 * header. No message contains the key.
 */
export function findApiKey(part: ModelPart, options: KeyOptions, defaults: readonly string[]): string | null {
  const { apiKey, apiKeyVariable, variables = process.env } = options;
  if (apiKey !== undefined) return checkKey(part, apiKey, "apiKey");
  for (const name of apiKeyVariable === undefined ? defaults : [apiKeyVariable]) {
    const key = checkKey(part, variables[name] ?? "", `environment variable "${name}"`);
    if (key !== null) return key;
  }
  if (apiKeyVariable === undefined) return null;
  throw new ConfigurationError(
    `Cannot read the key of the ${part} model: environment variable "${apiKeyVariable}" is not set; set it, or name another variable.`,
  );
}

/**
 * The key for the server at an address: from the options, else from the default variable of its
 * host. Errors as in `findApiKey`.
 */
export function findHostKey(part: ModelPart, { origin }: Pick<BaseUrl, "origin">, options: KeyOptions): string | null {
  const variable = keyVariables[new URL(origin).hostname];
  return findApiKey(part, options, variable === undefined ? [] : [variable]);
}

function checkKey(part: ModelPart, text: string, source: string): string | null {
  const key = text.trim();
  if (/[^\x21-\x7e]/.test(key)) {
    throw new ConfigurationError(
      `Cannot use the key of the ${part} model in ${source}: it contains a space or a character that headers do not allow; provide only the key.`,
    );
  }
  return key === "" ? null : key;
}
