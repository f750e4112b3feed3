// The golden suites by name: recorded inputs and expected outputs, run through our adapters by the
// tests and by `npm run conformance`. Loaded on demand, because a suite imports the adapters that
// it runs.

import type { GoldenSuite } from "./suite.ts";

const loaders: ReadonlyMap<string, () => Promise<GoldenSuite>> = new Map([
  ["tau-bench", async () => (await import("./tau-bench.ts")).tauBenchSuite],
  ["parsers", async () => (await import("./parsers.ts")).parsersSuite],
  ["models", async () => (await import("./models.ts")).modelsSuite],
  ["tau2-bench", async () => (await import("./tau2-bench.ts")).tau2BenchSuite],
  ["seed", async () => (await import("./seed.ts")).seedSuite],
]);

export const suiteNames: readonly string[] = [...loaders.keys()];

/** The suite of a name; `null` if there is none. */
export async function loadSuite(name: string): Promise<GoldenSuite | null> {
  return (await loaders.get(name)?.()) ?? null;
}
