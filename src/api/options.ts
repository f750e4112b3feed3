// Options of the public functions: settings by their flags' names in camelCase, parts as values if
// a program has them, and the context that a command takes from its process. This file turns them
// into settings.

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
import { checkAddresses, type FlagValues, resolveSettings, presetDefaults } from "./resolve-settings.ts";
import type { RolloutSettings } from "./rollout-settings.ts";
import type { RunToResume } from "./run-to-resume.ts";
import type { GivenParts, Surroundings } from "./surroundings.ts";

/** Options that every public function accepts besides its settings. */
export type CallOptions = {
  /** Folder that relative paths start from. @default process.cwd() */
  readonly cwd?: string;
  /** Environment variables, which hold keys. @default process.env */
  readonly variables?: Readonly<Record<string, string | undefined>>;
  /** Stops immediately: running episodes are cancelled; a resumed run continues them. @default never */
  readonly signal?: AbortSignal;
  /** Starts nothing new; running episodes are finished. @default never */
  readonly drain?: AbortSignal;
};

type Parts = {
  /** The value of the setting, or an environment that `defineEnvironment` returned. */
  readonly env: string | EnvironmentSource;
  /**
   * The value of the setting, or an engine of your own, which you close. In the latter case,
   * `model` names tokenizer and chat template.
   */
  readonly engine: RolloutSettings["engine"] | Engine;
  /** The value of the setting, or a chat agent of your own. */
  readonly agentModel: string | ChatAgent | null;
  /** The value of the setting, or a strategy. */
  readonly strategy: string | AgentStrategy;
  /** The value of the setting, or a source of users. */
  readonly user: string | UserSource | null;
  /** The value of the setting, or a rubric that `defineRubric` returned. */
  readonly rubric: string | Rubric | null;
  /** The value of the setting, or a ranking that `defineRanking` returned. */
  readonly ranking: string | Ranking | null;
  /** The value of the setting, or a judge that `createJudge` returned. */
  readonly judgeModel: string | Judge | null;
  /** The value of the setting, or filters, all of which a group must pass. */
  readonly filter: string | GroupFilter | readonly GroupFilter[] | null;
  /** The value of the setting, or the indexes. */
  readonly tasks: string | readonly number[] | null;
};

/** The settings of a rollout, all optional, by their flags' names in camelCase: `--group-size` is `groupSize`. */
export type RolloutSettingOptions = Partial<Omit<RolloutSettings, keyof Parts> & Parts>;

/** Sources of settings besides the options themselves, which override them. */
export type SettingSources = {
  /** YAML file with settings, named like the flags without the dashes. @default none */
  readonly config?: string;
  /**
   * Run folder to continue with its settings; only addresses, keys, concurrency and the like may
   * be changed. @default none
   */
  readonly resume?: string;
};

export type ReadOptions = {
  readonly settings: RolloutSettings;
  readonly surroundings: Surroundings;
  /** `null` for a new run. */
  readonly resume: RunToResume | null;
};

/**
 * Defaults of a policy that outside programs use: they write their own prompts and stop when they
 * are done; the bound only stops broken programs.
 */
export const programDefaults = { maxTurns: 1000, toolInstruction: "none" } as const satisfies FlagValues;

/**
 * Converts options to settings; `given` is a resumed run that `resume` does not name. Throws a
 * `ConfigurationError` that names the option as its flag, or file, line and column.
 */
export async function readOptions(
  options: RolloutSettingOptions & SettingSources & CallOptions,
  defaults: FlagValues = {},
  given: RunToResume | null = null,
): Promise<ReadOptions> {
  const { cwd = process.cwd(), variables: env = process.env, config } = options;
  const { values, parts } = splitParts(options);
  const surroundings = { env, cwd, parts };
  const resume =
    options.resume === undefined
      ? given
      : await (await import("./run-to-resume.ts")).readRunToResume(options.resume, cwd);
  if (options.resume !== undefined) {
    const named = (["config", "out"] as const).find((name) => options[name] !== undefined);
    if (named !== undefined) {
      throw new ConfigurationError(
        `Cannot use --${named} with --resume: folder and settings are those of the run; remove --${named}.`,
      );
    }
  }
  const read = (settings: RolloutSettings): ReadOptions => {
    checkAddresses(settings);
    return { settings, surroundings, resume };
  };
  if (resume !== null) return read(resolveSettings(values, resume.settings));
  const file = config === undefined ? null : await (await import("./config-file.ts")).readConfigFile(config, cwd);
  const preset = values.preset ?? file?.values.get("preset")?.value;
  const isProgram = (["agentCommand", "agentAcp"] as const).some((name) => (values[name] ?? file?.values.get(name)?.value ?? null) !== null); // prettier-ignore
  const below = {
    ...(isProgram ? programDefaults : {}),
    ...defaults,
    ...presetDefaults(typeof preset === "string" ? preset : null),
  };
  return read(resolveSettings(values, file, below));
}

/** Separates values from settings; such a setting then holds the name of its value. */
function splitParts(options: RolloutSettingOptions): { readonly values: FlagValues; readonly parts: GivenParts } {
  const values: Record<string, unknown> = { ...options };
  const parts: Record<string, unknown> = {};
  for (const name of ["env", "engine", "agentModel", "strategy", "user", "rubric", "ranking", "judgeModel"] as const) {
    const part = options[name];
    if (typeof part !== "object" || part === null) continue;
    parts[name] = part;
    const { name: own, model } = part as { readonly name?: unknown; readonly model?: unknown };
    values[name] = name === "engine" ? "own" : name === "judgeModel" ? model : own;
  }
  const { filter } = options;
  if (typeof filter === "function" || Array.isArray(filter)) {
    parts["filter"] = [filter].flat();
    values["filter"] = "own";
  }
  return { values, parts };
}
