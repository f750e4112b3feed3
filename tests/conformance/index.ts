// The golden suites by name: recorded inputs and expected outputs, played through our adapters by the tests and by
// `npm run conformance`. Loaded when asked for, because a suite pulls in the adapters that it plays.

import type { GoldenSuite } from "./suite.ts";

const loaders: ReadonlyMap<string, () => Promise<GoldenSuite>> = new Map([
  ["tau-bench", async () => (await import("./tau-bench.ts")).tauBenchSuite],
  ["parsers", async () => (await import("./parsers.ts")).parsersSuite],
  ["models", async () => (await import("./models.ts")).modelsSuite],
  ["tau2-bench", async () => (await import("./tau2-bench.ts")).tau2BenchSuite],
  ["seed", async () => (await import("./seed.ts")).seedSuite],
]);

export const suiteNames: readonly string[] = [...loaders.keys()];

/** The suite of a name; `null` when there is none. */
export async function loadSuite(name: string): Promise<GoldenSuite | null> {
  return (await loaders.get(name)?.()) ?? null;
}
