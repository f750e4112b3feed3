// The tools that an episode's template showed, for datasets of messages. A run folder does not hold them; the environment
// that it names does. Code that a run folder names is not run: a module of the user must be named on the command line.

import { ConfigurationError, type EnvironmentSource, type Tool } from "../../core/index.ts";
import type { ExportContext } from "../../exporters/index.ts";
import { dumpJson } from "../../lib/json/dump-json.ts";
import type { JsonObject, JsonValue } from "../../lib/json/value.ts";
import { environmentNames, loadEnvironment } from "../load-environment.ts";

export type ToolsOptions = {
  readonly manifest: JsonObject;
  /** Given on the command line; `null`: as the run says. */
  readonly env: string | null;
  readonly data: string | null;
  readonly cwd: string;
  /** Told why no tools are known. */
  readonly onUnknown: (reason: string) => void;
};

/** Tools by episode. */
export async function toolsOfRun(options: ToolsOptions): Promise<ExportContext["toolsOf"]> {
  const { manifest, cwd, onUnknown } = options;
  const configuration = manifest.get("configuration");
  const said = (name: string): string | null => textOf(configuration instanceof Map ? configuration.get(name) : null);
  // Other strategies describe tools in the first message.
  if ((said("strategy") ?? "tool-calling") !== "tool-calling") return () => null;
  const env = options.env ?? said("env");
  if (env === null || (options.env === null && !environmentNames.includes(env))) {
    onUnknown(`the environment "${env}" is a module; name it with --env to load it`);
    return () => null;
  }
  let source: EnvironmentSource;
  try {
    ({ source } = await loadEnvironment(env, { data: options.data ?? said("data"), cwd }));
  } catch (error) {
    if (!(error instanceof ConfigurationError) || options.env !== null || options.data !== null) throw error;
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

function textOf(value: JsonValue | undefined): string | null {
  return typeof value === "string" ? value : null;
}
