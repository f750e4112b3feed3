// Limits on the difference between the logprobs of two computations of one model.

/**
 * Differences that rounding explains: measured means are about 1e-6, and 1e-5 is the largest ever
 * observed.
 */
export const agreementLimits = Object.freeze({ mean: 1e-4, largest: 2e-3 });
