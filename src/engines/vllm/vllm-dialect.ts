// How vLLM, old and new, words what an HTTP status does not say.

import type { ServerDialect } from "../../http/index.ts";

export const vllmDialect: ServerDialect = {
  product: "vLLM",
  // The OpenAI layer speaks of the context length, the engine below it of the model length, and some proxies send the code.
  isContextOverflow: (words) =>
    /context length|maximum model length|maximum input length|context_length_exceeded/i.test(words),
  isOverload: () => false,
  isDuplicate: (words) => /request id \S+ already/i.test(words),
  isDisabled,
  hasNoServer: () => false,
  remedy: ({ status, message }) => {
    if (isDisabled(message)) return "do that, or sample from the endpoint of completions";
    if (status !== 404) return null;
    // A known path refuses a model in its own words.
    return /model/i.test(message)
      ? "give the name under which the server serves the model"
      : "check that the address is a vLLM server";
  },
};

/** The endpoint of ids exists, but the server was started without it. */
export function isDisabled(words: string): boolean {
  return /endpoints are disabled/i.test(words);
}
