// The user simulator of a rollout, recorded if requested, and the strategy of its agent, by the names of the settings.

import { existsSync } from "node:fs";
import { appendFile } from "node:fs/promises";
import { resolve } from "node:path";

import { agentFactory, parseDisplays } from "../agents/index.ts";
import { ConfigurationError, type EnvironmentSource, type UserSource, type AgentStrategy } from "../core/index.ts";
import { loadUserPrompts, type TauUserPrompts, loadFewShotDisplays } from "../environments/tau-bench/index.ts";
import { type ModelUserOptions, parseUserExchanges, selectUser, userNames, recordingUser } from "../users/index.ts";
import { readSettingFile } from "./choose-model.ts";
import type { RolloutSettings } from "./rollout-settings.ts";
import { readKey } from "./secrets.ts";
import { nearest } from "./setting.ts";
import type { Surroundings } from "./surroundings.ts";

type StrategySettings = Pick<RolloutSettings, "strategy" | "instruction" | "displays" | "data">;

/** Throws a `ConfigurationError` for a strategy that is unknown or lacks something, and for files that it would not read. */
export async function chooseStrategy(
  settings: StrategySettings,
  environment: EnvironmentSource,
  { cwd, parts }: Pick<Surroundings, "cwd" | "parts">,
): Promise<AgentStrategy> {
  if (parts?.strategy !== undefined) return parts.strategy;
  const { strategy, instruction, displays } = settings;
  const isText = strategy === "act" || strategy === "react";
  requireUsed("--instruction", instruction === null || isText, strategy);
  requireUsed("--displays", displays === null || strategy === "few-shot", strategy);
  if (strategy === "few-shot") {
    return agentFactory({ strategy, displays: await displaysOf(settings, environment, cwd) });
  }
  if (instruction === null) return agentFactory({ strategy });
  // Words stand directly behind the tools; a file seldom begins with the line break between them.
  const words = await readSettingFile(instruction, cwd, "--instruction");
  return agentFactory({ strategy, instruction: words.startsWith("\n") ? words : `\n${words}` });
}

async function displaysOf(
  { displays, data }: StrategySettings,
  environment: EnvironmentSource,
  cwd: string,
): Promise<readonly string[]> {
  if (displays !== null) return parseDisplays(await readSettingFile(displays, cwd, "--displays"), displays);
  const [benchmark, domain = ""] = environment.name.split("/");
  const found =
    data === null || benchmark !== "tau-bench" ? null : await loadFewShotDisplays(resolve(cwd, data), domain);
  if (found !== null) return found;
  throw new ConfigurationError(
    `Cannot run "${environment.name}" with strategy "few-shot": there are no example conversations; give --displays <file>, or ` +
      "--data <folder>, a checkout of tau-bench with its few_shot_data.",
  );
}

function requireUsed(flag: string, isUsed: boolean, strategy: string): void {
  if (isUsed) return;
  throw new ConfigurationError(
    `Cannot use ${flag} with strategy "${strategy}": nothing would read it; leave one of both out.`,
  );
}

/** The source, recorded; as it is when `file` is `null`. Throws a `ConfigurationError` when the file exists and the run begins. */
export function recordUsers(
  source: UserSource,
  file: string | null,
  options: { readonly cwd: string; readonly redact: (text: string) => string; readonly resumes: boolean },
): UserSource {
  if (file === null) return source;
  const path = resolve(options.cwd, file);
  if (!options.resumes && existsSync(path)) {
    throw new ConfigurationError(
      `Cannot record users to "${file}": the file exists; name another with --record-users.`,
    );
  }
  let written: Promise<void> = Promise.resolve();
  return recordingUser(source, (exchange) => {
    const line = `${options.redact(JSON.stringify(exchange))}\n`;
    const before = written;
    const writing = before.catch(() => undefined).then(() => appendFile(path, line));
    written = writing;
    return writing;
  });
}

/** Users that are played by a model; an environment that lists "llm" can be played by each. */
const modelUsers = ["llm", "react", "verify", "reflection"];

/** Replaying is asked for by naming a recording. */
const playable = userNames.filter((name) => name !== "replay");

type UserSettings = Pick<
  RolloutSettings,
  | "user"
  | "userModel"
  | "userUrl"
  | "userApiKeyEnv"
  | "userLines"
  | "userPrompts"
  | "userCompat"
  | "replayUsers"
  | "data"
>;

/** Throws a `ConfigurationError` for a user that is unknown, cannot play the environment, or lacks something. */
export async function chooseUser(
  settings: UserSettings,
  environment: EnvironmentSource,
  context: Surroundings,
): Promise<UserSource> {
  if (context.parts?.user !== undefined) return context.parts.user;
  if (settings.replayUsers !== null) return replayedUser(settings, settings.replayUsers, context.cwd);
  const name = settings.user ?? defaultUser(settings, environment);
  if (!playable.includes(name)) {
    const near = nearest(name, playable);
    throw new ConfigurationError(
      `Cannot find user "${name}": ${near === null ? `there are ${playable.join(", ")}; choose one with --user.` : `did you mean "${near}"?`}`,
    );
  }
  const isListed = environment.users.includes(name) || (modelUsers.includes(name) && environment.users.includes("llm"));
  if (!isListed) {
    throw new ConfigurationError(
      `Cannot run "${environment.name}" with user "${name}": it runs with ${usersOf(environment)}; choose one with --user.`,
    );
  }
  if (modelUsers.includes(name))
    return selectUser(name, { model: await modelOptions(name, { settings, environment, context }) });
  if (name !== "scripted") return selectUser(name);
  if (settings.userLines === null) {
    throw new ConfigurationError(
      'Cannot make user "scripted": it has nothing to say; give a file of lines with --user-lines.',
    );
  }
  const text = await readSettingFile(settings.userLines, context.cwd, "--user-lines");
  return selectUser(name, { lines: text.split(/\r?\n/).filter((line) => line.trim() !== "") });
}

/** Any environment will do: what was recorded can be played back. */
async function replayedUser(settings: UserSettings, file: string, cwd: string): Promise<UserSource> {
  const { user, userModel, userLines } = settings;
  if ((user !== null && user !== "replay") || userModel !== null || userLines !== null) {
    throw new ConfigurationError(
      "Cannot replay users and choose one at the same time: leave --user, --user-model and --user-lines out, or --replay-users.",
    );
  }
  return selectUser("replay", { exchanges: parseUserExchanges(await readSettingFile(file, cwd, "--replay-users")) });
}

/** What the environment lists first; a model when one is named. */
function defaultUser(settings: UserSettings, environment: EnvironmentSource): string {
  if (settings.userModel !== null && environment.users.includes("llm")) return "llm";
  if (settings.userLines !== null && environment.users.includes("scripted")) return "scripted";
  return environment.users[0] ?? "llm";
}

function usersOf(environment: EnvironmentSource): string {
  return environment.users.filter((name) => playable.includes(name)).join(", ");
}

async function modelOptions(
  name: string,
  given: {
    readonly settings: UserSettings;
    readonly environment: EnvironmentSource;
    readonly context: Surroundings;
  },
): Promise<ModelUserOptions> {
  const { environment, settings } = given;
  const { env, cwd } = given.context;
  const { userModel, userUrl, userApiKeyEnv } = settings;
  if (userModel === null) {
    throw new ConfigurationError(
      `Cannot make user "${name}": no model is named for it; give --user-model provider/model, or --user-url <address> and ` +
        `--user-model <its name there>. "${environment.name}" runs with ${usersOf(environment)}.`,
    );
  }
  const apiKey = readKey(env, userApiKeyEnv, "--user-api-key-env");
  const prompts = await promptsOf(settings, environment, cwd);
  return {
    model: userModel,
    variables: env,
    compat: settings.userCompat,
    ...(prompts === null ? {} : { prompts }),
    ...(userUrl === null ? {} : { url: userUrl }),
    ...(apiKey === null ? {} : { apiKey }),
  };
}

/** Prompts that came with the data of tau-bench; `null`: our own. */
async function promptsOf(
  { data, userPrompts }: UserSettings,
  environment: EnvironmentSource,
  cwd: string,
): Promise<TauUserPrompts | null> {
  if (userPrompts === "own" || data === null || !environment.name.startsWith("tau-bench/")) return null;
  return loadUserPrompts(resolve(cwd, data));
}
