// How far the logprobs of two computations of one model may be apart.

/** What rounding explains: measured means are about 1e-6, and 1e-5 is the largest seen. */
export const agreementLimits = Object.freeze({ mean: 1e-4, largest: 2e-3 });
