// Takes known secrets out of text that others wrote: servers like to quote the key they refuse. Not a search for unknown
// secrets; what is not listed passes.

import { unchanged } from "../lib/text.ts";

/** Makes a function that replaces each secret by `***`. Empty and absent secrets are left out. */
export function createRedactor(secrets: readonly (string | null)[]): (text: string) => string {
  // Longest first, so that a secret that contains another leaves no rest.
  const known = [...new Set(secrets)]
    .filter((secret): secret is string => secret !== null && secret !== "")
    .toSorted((left, right) => right.length - left.length);
  if (known.length === 0) return unchanged;
  return (text) => known.reduce((rest, secret) => rest.replaceAll(secret, "***"), text);
}
