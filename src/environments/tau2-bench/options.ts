// The names of the domains and the options, in a file of their own, so that code that only lists
// them loads neither the tools nor the reader of a checkout.

import { flag, section } from "../../parts/setting.ts";

const names = ["mock", "retail", "airline", "telecom", "telecom-workflow"] as const;

export type Tau2Domain = (typeof names)[number];

/** Names of the domains, without the benchmark's name. */
export const tau2Domains: readonly string[] = names;

/** Suffix of a domain's name for its mode without a user. */
export const soloSuffix = "-solo";

export const tau2Options = section("Tasks", {
  solo: flag.help(
    "tau2-bench without a user: the agent has the tools of both sides and works from a ticket; the same as the suffix -solo in the environment's name",
  ),
});
