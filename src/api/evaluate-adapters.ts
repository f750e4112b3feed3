// An evaluation of several LoRA adapters on the same tasks: a run for each, one after the other, and
// their comparison task by task with the first.

import { join } from "node:path";
import { ConfigurationError } from "../core/index.ts";
import { compareRuns } from "./compare-runs.ts";
import type { Comparison } from "../statistics/index.ts";

type Evaluated = { readonly source: string; readonly rollout: { readonly status: string } | null };

/** `evaluate`: evaluates one. Rejects with a `ConfigurationError` for options that belong to one run. */
export async function evaluateAdapters<Result extends Evaluated>(
  names: readonly string[],
  options: { readonly [Name in "from" | "resume" | "report" | "out" | "cwd"]?: unknown },
  evaluate: (run: { readonly adapter: string; readonly out?: string }) => Promise<Result>,
): Promise<
  Result & {
    readonly adapters: readonly { readonly adapter: string; readonly result: Result }[];
    readonly comparison?: Comparison;
  }
> {
  const [single] = (["from", "resume", "report"] as const).filter((name) => (options[name] ?? null) !== null);
  if (single !== undefined) {
    throw new ConfigurationError(
      `Cannot use --${single} with several adapters: it belongs to one run; name one adapter, and see "compare" for runs.`,
    );
  }
  if (new Set(names).size < names.length) {
    throw new ConfigurationError("Cannot compare adapters: one is named twice; name each once with --adapter.");
  }
  const folders = names.map((name) => name.replaceAll(/[^\w.@-]/g, "_"));
  const isAmbiguous = new Set(folders).size < folders.length;
  const adapters: { readonly adapter: string; readonly result: Result }[] = [];
  for (const [at, adapter] of names.entries()) {
    const folder = isAmbiguous ? `${at}-${folders[at]}` : folders[at]!;
    const out = typeof options.out === "string" ? { out: join(options.out, folder) } : {};
    const result = await evaluate({ ...out, adapter });
    adapters.push({ adapter, result });
    if (result.rollout?.status === "interrupted") break;
  }
  const { result } = adapters[0]!;
  if (adapters.length < names.length) return { ...result, adapters };
  const runs = adapters.map((one) => one.result.source);
  const { cwd } = options;
  const comparison = await compareRuns({ runs, names, ...(typeof cwd === "string" ? { cwd } : {}) });
  return { ...result, adapters, comparison };
}
