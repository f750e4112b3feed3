// The names of the domains, in a file of their own, so that code that only lists them loads neither
// the tools nor the reader of a checkout.

const names = ["retail", "airline"] as const;

export type TauBenchDomain = (typeof names)[number];

/** Names of the domains that can be opened. */
export const tauBenchDomains: readonly string[] = names;
