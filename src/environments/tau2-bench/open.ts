// Opens a domain for a run, by its name.

import { resolve } from "node:path";
import type { EnvironmentContext, LoadedEnvironment } from "../../parts/environment.ts";
import { requireData } from "../checkout/options.ts";
import { loadTau2Data, tau2Source } from "./index.ts";
import { soloSuffix } from "./options.ts";

type Options = { readonly data: string | null };

/** Rejects with a `ConfigurationError` for an unknown domain, and without its data. */
export async function openSource({
  name,
  rest,
  options: { data },
  cwd,
  split,
}: EnvironmentContext<Options>): Promise<LoadedEnvironment> {
  const folder = requireData(name, data === null ? null : resolve(cwd, data));
  const isSolo = rest.endsWith(soloSuffix);
  const domain = isSolo ? rest.slice(0, -soloSuffix.length) : rest;
  const loaded = await loadTau2Data({ domain, folder });
  const source = await tau2Source(loaded, { ...(isSolo ? { isSolo } : {}), split });
  return { source, defaultSplit: "base", defaultTasks: "all" };
}
