// The names of the domains, apart from the domains: whoever lists what there is to run loads neither their tools nor the reader of
// a checkout.

const names = ["retail", "airline"] as const;

export type TauBenchDomain = (typeof names)[number];

/** The domains that can be opened. */
export const tauBenchDomains: readonly string[] = names;
