// The names of the domains, in a file of their own, as in `tau-bench/domains.ts`.

const names = ["mock", "retail", "airline", "telecom", "telecom-workflow"] as const;

export type Tau2Domain = (typeof names)[number];

/** Names of the domains, without the benchmark's name. */
export const tau2Domains: readonly string[] = names;
