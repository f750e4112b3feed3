// The kind of retrieval that a name stands for.

import { ConfigurationError } from "../../../core/index.ts";
import { remedyFor } from "../../../lib/nearest.ts";
import { type Retrieval, retrievals } from "../options.ts";

/** Upstream's other ways, by what they need. */
const unsupported: readonly (readonly [pattern: RegExp, need: string])[] = [
  [/^alltools|^AllTools$/, "a key for a model of embeddings, and a shell"],
  [/reranker/, "a key for a model that ranks documents"],
  [/embeddings/, "a key for a model of embeddings"],
  [/^terminal_use/, "a shell"],
];

/** Throws a `ConfigurationError` for a name that is none of ours, with what it needs if it is upstream's. */
export function readRetrieval(name: string): Retrieval {
  const known = retrievals.find((one) => one === name);
  if (known !== undefined) return known;
  const need = unsupported.find(([pattern]) => pattern.test(name))?.[1];
  throw new ConfigurationError(
    `Cannot use retrieval "${name}" of tau2-bench/banking_knowledge: ${need === undefined ? "there is none of that name" : `it needs ${need}, which is not supported`}; ${remedyFor(name, retrievals)}`,
  );
}
