// Opens a domain for a run, by its name.

import { resolve } from "node:path";
import type { EnvironmentContext, LoadedEnvironment } from "../../parts/environment.ts";
import { requireData } from "../checkout/options.ts";
import { tauBenchSource } from "./tau-bench-source.ts";

type Options = { readonly data: string | null };

/** Rejects with a `ConfigurationError` for an unknown domain, and without its data. */
export async function openSource({
  name,
  rest: domain,
  options: { data },
  cwd,
}: EnvironmentContext<Options>): Promise<LoadedEnvironment> {
  const folder = requireData(name, data === null ? null : resolve(cwd, data));
  return { source: await tauBenchSource({ domain, folder }), defaultSplit: "test", defaultTasks: "all" };
}
