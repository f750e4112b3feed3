// Context in which options are read: the process that receives them, and parts that a program gives
// as values.

import { readFileSync } from "node:fs";

import { resolve } from "node:path";
import type { JsonObject } from "../python-semantics/json/index.ts";
import {
  type AgentStrategy,
  type ChatAgent,
  ConfigurationError,
  type Engine,
  type EnvironmentSource,
  type Judge,
  type Ranking,
  type Rubric,
  type UserSource,
} from "../core/index.ts";
import type { GroupFilter } from "../rollout/index.ts";
import { readRegular } from "../system/regular-file.ts";

/** Environment variables, and the folder that relative paths start from. */
export type Surroundings = {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** Parts that replace those which the settings of the same meaning name. Default: none. */
  readonly parts?: GivenParts;
  /**
   * Number of workers, which changes, if this process is one of them; they share the limits of the
   * run. Default: this process has the limits to itself.
   */
  readonly share?: { readonly workers: number };
};

/** Parts of a rollout that a program gives as values. */
export type GivenParts = {
  readonly env?: EnvironmentSource;
  readonly engine?: Engine;
  readonly agentModel?: ChatAgent;
  readonly strategy?: AgentStrategy;
  readonly user?: UserSource;
  readonly rubric?: Rubric;
  readonly ranking?: Ranking;
  readonly judgeModel?: Judge;
  readonly filter?: readonly GroupFilter[];
};

/** The text of a file that a flag names. Throws a `ConfigurationError` that ends with the remedy. */
export async function readNamedFile(path: string, cwd: string, remedy: string, kind = ""): Promise<string> {
  try {
    return await readRegular(resolve(cwd, path), "utf8");
  } catch (cause) {
    const { code = String(cause) } = cause as NodeJS.ErrnoException;
    const states: Readonly<Record<string, string>> = { ENOENT: "there is no such file", EISDIR: "it is a folder" };
    const state = states[code] ?? code;
    throw new ConfigurationError(`Cannot read ${kind}"${path}": ${state}; ${remedy}`, { cause });
  }
}

let version: string | null = null;

/** Version of this package, from package.json. */
export function packageVersion(): string {
  if (version !== null) return version;
  const manifest: unknown = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));
  const found = typeof manifest === "object" && manifest !== null && "version" in manifest ? manifest.version : null;
  version = typeof found === "string" ? found : "unknown";
  return version;
}

/** Versions of the programs that wrote a run, for later readers of its folder. */
export function packageVersions(): JsonObject {
  return new Map([
    ["trainable-agents", packageVersion()],
    ["node", process.versions.node],
  ]);
}
