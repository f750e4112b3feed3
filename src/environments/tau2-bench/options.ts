// The names of the domains and the options, in a file of their own, so that code that only lists
// them loads neither the tools nor the reader of a checkout.

import { flag, section, text } from "../../parts/setting.ts";

const names = ["mock", "retail", "airline", "telecom", "telecom-workflow", "banking_knowledge"] as const;

export type Tau2Domain = (typeof names)[number];

/** Names of the domains, without the benchmark's name. */
export const tau2Domains: readonly string[] = names;

/** Suffix of a domain's name for its mode without a user. */
export const soloSuffix = "-solo";

/** Ways from the bank's agent to its documents that need neither a key nor another program. */
export const retrievals = ["no_knowledge", "full_kb", "golden_retrieval", "bm25", "bm25_grep", "grep_only"] as const;

/** Upstream's name for how the agent of `banking_knowledge` comes to the documents. */
export type Retrieval = (typeof retrievals)[number];

/** The default; upstream's own, "alltools", needs a model of embeddings and its key. */
export const defaultRetrieval: Retrieval = "bm25_grep";

export const tau2Options = section("Tasks", {
  solo: flag.help(
    "tau2-bench without a user: the agent has the tools of both sides and works from a ticket; the same as the suffix -solo in the environment's name",
  ),
  retrieval: text("<kind>", "the name of a kind of retrieval").help(
    `how the agent of tau2-bench/banking_knowledge comes to the documents: ${retrievals.join(", ")}; the same as a suffix like -bm25 in the environment's name`,
    { suggested: retrievals },
  ),
});
