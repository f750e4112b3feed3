// The names of the domains and the options, in a file of their own, so that code that only lists
// them loads neither the tools nor the reader of a checkout.

import { ConfigurationError } from "../../core/failure.ts";
import { remedyFor } from "../../lib/nearest.ts";
import { flag, section, text } from "../../parts/setting.ts";

const names = ["mock", "retail", "airline", "telecom", "telecom-workflow", "banking_knowledge"] as const;

export type Tau2Domain = (typeof names)[number];

/** Names of the domains, without the benchmark's name. */
export const tau2Domains: readonly string[] = names;

/** Suffix of a domain's name for its mode without a user. */
export const soloSuffix = "-solo";

/** Ways from the bank's agent to its documents that need neither a key nor another program. */
const retrievals = ["no_knowledge", "full_kb", "golden_retrieval", "bm25", "bm25_grep", "grep_only"] as const;

/** Upstream's name for how the agent of `banking_knowledge` comes to the documents. */
export type Retrieval = (typeof retrievals)[number];

/** The default; upstream's own, "alltools", needs a model of embeddings and its key. */
export const defaultRetrieval: Retrieval = "bm25_grep";

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

export const tau2Options = section("Tasks", {
  solo: flag.help(
    "tau2-bench without a user: the agent has the tools of both sides and works from a ticket; the same as the suffix -solo in the environment's name",
  ),
  retrieval: text("<kind>", "the name of a kind of retrieval").help(
    `how the agent of tau2-bench/banking_knowledge comes to the documents: ${retrievals.join(", ")}; the same as a suffix like -bm25 in the environment's name`,
    { suggested: retrievals },
  ),
});
