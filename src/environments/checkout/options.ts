// The option of benchmarks whose tasks and tables are not part of this package, and the domains of
// the first of them; code that only lists both loads neither tools nor the reader of a checkout.

import { existsSync } from "node:fs";
import { ConfigurationError } from "../../core/index.ts";
import { folder, free, section } from "../../parts/setting.ts";

const tauBenchNames = ["retail", "airline"] as const;

export type TauBenchDomain = (typeof tauBenchNames)[number];

/** Names of the domains that can be opened. */
export const tauBenchDomains: readonly string[] = tauBenchNames;

export const dataOptions = section("Tasks", {
  data: folder.help(
    'folder with the environment data: an upstream checkout of tau-bench, or the output of "prepare tau-bench"',
    { ...free, isCommon: true },
  ),
});

/**
 * The data folder of an environment, which is not part of this package. Throws a
 * `ConfigurationError` if none is named, or it does not exist.
 */
export function requireData(env: string, data: string | null): string {
  const [benchmark] = env.split("/");
  if (data === null) {
    throw new ConfigurationError(
      `Cannot open "${env}": its tasks and tables are not part of this package; pass --data <folder>, a ` +
        `checkout of upstream's repository, or to a folder made with "npx trainable-agents prepare ${benchmark} --to <folder>".`,
    );
  }
  if (existsSync(data)) return data;
  throw new ConfigurationError(
    `Cannot open "${env}": there is no folder "${data}"; correct --data, or create it with: npx trainable-agents ` +
      `prepare ${benchmark} --to <folder>`,
  );
}
