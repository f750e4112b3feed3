// How SGLang and its router word what an HTTP status does not say.

import type { ServerDialect } from "../../http/index.ts";

export const sglangDialect: ServerDialect = {
  product: "SGLang",
  isContextOverflow: (words) => /context length|maximum allowed length/i.test(words),
  isOverload: (words) =>
    /^(The request queue is full|Request (waiting|running) timeout reached|The request is aborted by a higher priority)/.test(
      words,
    ),
  isDuplicate: (words) => /duplicate request id/i.test(words),
  isDisabled: () => false,
  hasNoServer: (words) => /no_available_workers/.test(words),
  remedy: ({ status, message }) => {
    if (status === 404) return "check that the address is an SGLang server or router";
    if (status === 500 && message.trim() === "Internal Server Error") {
      return "an unknown name in sampling.extra has this effect, and the server's log says more";
    }
    return null;
  },
};
