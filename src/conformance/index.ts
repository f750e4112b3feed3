// The golden suites by name: recorded inputs and expected outputs, played through our adapters by the tests and by
// `npm run conformance`. Loaded when asked for, because a suite pulls in the adapters that it plays.

import type { GoldenSuite } from "./suite.ts";

const loaders: Readonly<Record<string, () => Promise<GoldenSuite | null>>> = {
  "tau-bench": () => load("tau-bench", "tauBenchSuite"),
  parsers: () => load("parsers", "parsersSuite"),
  models: () => load("models", "modelsSuite"),
  seed: () => load("seed", "seedSuite"),
};

export const suiteNames: readonly string[] = Object.keys(loaders);

/** The suite of a name; `null` when there is none. */
export async function loadSuite(name: string): Promise<GoldenSuite | null> {
  const loader = Object.hasOwn(loaders, name) ? loaders[name] : undefined;
  return loader === undefined ? null : loader();
}

async function load(file: string, exported: string): Promise<GoldenSuite | null> {
  try {
    const extension = import.meta.url.endsWith(".ts") ? "ts" : "js";
    const loaded = (await import(`./${file}.${extension}`)) as Record<string, GoldenSuite>;
    return loaded[exported] ?? null;
  } catch {
    return null;
  }
}
