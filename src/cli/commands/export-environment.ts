// What a run folder does not hold and its environment knows: the tools that an episode's template showed, and whose fault a
// failure was. Code that a run folder names is not run: a module of the user must be named on the command line.

import { resolve } from "node:path";
import {
  ConfigurationError,
  type EnvironmentSource,
  type Episode,
  type EpisodeSamples,
  type Tool,
} from "../../core/index.ts";
import { episodeSamples } from "../../rollout/index.ts";
import type { ExportContext } from "../../export/index.ts";
import { faultPolicies } from "../../graders/index.ts";
import { dumpJson } from "../../python-semantics/json/dump-json.ts";
import type { JsonObject, JsonValue } from "../../python-semantics/json/value.ts";
import { faultPolicyOf } from "../../api/fault-policy.ts";
import { environmentNames, loadEnvironment } from "../../api/load-environment.ts";

export type RunEnvironment = {
  readonly manifest: JsonObject;
  readonly folder: string;
  /** Given on the command line; `null`: as the run says. */
  readonly env: string | null;
  readonly data: string | null;
  readonly cwd: string;
};

/** Tools by episode; `onUnknown` is told why none are known. */
export async function toolsOfRun(
  run: RunEnvironment,
  onUnknown: (reason: string) => void,
): Promise<ExportContext["toolsOf"]> {
  // Other strategies describe tools in the first message.
  if ((said(run, "strategy") ?? "tool-calling") !== "tool-calling") return () => null;
  let source: EnvironmentSource;
  try {
    source = await environmentOf(run);
  } catch (error) {
    if (!(error instanceof ConfigurationError) || run.env !== null || run.data !== null) throw error;
    onUnknown(error.message);
    return () => null;
  }
  const texts = new WeakMap<readonly Tool[], string>();
  return ({ episode }) => {
    const { tools } = source.open(episode.task);
    const text = texts.get(tools) ?? dumpJson(tools.map(({ definition }) => definition));
    texts.set(tools, text);
    return text;
  };
}

/** What the run trained of an episode, its fault policy included. Throws a `ConfigurationError` when that cannot be asked. */
export async function samplesOfRun(run: RunEnvironment): Promise<(episode: Episode) => Promise<EpisodeSamples>> {
  const policy = faultPolicies.find((one) => one === said(run, "faultPolicy")) ?? "keep";
  if (policy === "keep") return async (episode) => episodeSamples(episode);
  const data = run.data ?? said(run, "data");
  const environment = await environmentOf(run);
  const judge = faultPolicyOf({ policy, environment, data: data === null ? null : resolve(run.cwd, data) });
  return async (episode) => judge(episode, episodeSamples(episode));
}

async function environmentOf(run: RunEnvironment): Promise<EnvironmentSource> {
  const env = run.env ?? said(run, "env");
  if (env === null || (run.env === null && !environmentNames.includes(env))) {
    throw new ConfigurationError(
      `Cannot open the environment "${env}" of run "${run.folder}": it is a module, and code that a run folder names is not run; name it with --env.`,
    );
  }
  const { source } = await loadEnvironment(env, { data: run.data ?? said(run, "data"), cwd: run.cwd });
  return source;
}

function said({ manifest }: RunEnvironment, name: string): string | null {
  const configuration = manifest.get("configuration");
  const value: JsonValue | undefined = configuration instanceof Map ? configuration.get(name) : undefined;
  return typeof value === "string" ? value : null;
}
