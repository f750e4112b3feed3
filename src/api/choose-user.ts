// The user simulator of a rollout, recorded if requested, and the strategy of its agent, by the names of the settings.

import { existsSync } from "node:fs";
import { appendFile } from "node:fs/promises";
import { resolve } from "node:path";

import { createToolCalling, parseDisplays } from "../agents/on-demand.ts";
import { ConfigurationError, type EnvironmentSource, type UserSource, type AgentStrategy } from "../core/index.ts";
import type { ModelUserOptions } from "../users/index.ts";
import { optionsOf, refuseForeignOptions } from "../parts/setting.ts";
import { userOptions, type UserRow, userRows } from "../users/on-demand.ts";
import { presetDefaults } from "./resolve-settings.ts";
import type { RolloutSettings } from "./rollout-settings.ts";
import { readAccess } from "./secrets.ts";
import { readNamedFile, type Surroundings } from "./surroundings.ts";
import { suggestion } from "../lib/nearest.ts";

/**
 * Throws a `ConfigurationError` for an unknown or incomplete strategy, and for files that it would
 * not read.
 */
export async function chooseStrategy(
  settings: RolloutSettings,
  environment: EnvironmentSource,
  { cwd, parts }: Pick<Surroundings, "cwd" | "parts">,
): Promise<AgentStrategy> {
  const { strategy, instruction, displays, calls } = settings;
  if (calls === "several") refuseSeveral(parts?.strategy === undefined ? strategy : null, environment);
  if (parts?.strategy !== undefined) return parts.strategy;
  const isText = strategy === "act" || strategy === "react";
  requireUsed("--instruction", instruction === null || isText, strategy);
  requireUsed("--displays", displays === null || strategy === "few-shot", strategy);
  if (strategy === "tool-calling") return createToolCalling({ calls });
  const { agentFactory } = await import("../agents/index.ts");
  if (strategy === "few-shot") {
    return agentFactory({ strategy, calls, displays: await displaysOf(settings, environment, cwd) });
  }
  if (instruction === null) return agentFactory({ strategy, calls });
  // The text follows directly after the tools, so it needs a leading line break, which files seldom
  // have.
  const text = await readNamedFile(instruction, cwd, "correct --instruction.");
  return agentFactory({ strategy, instruction: text.startsWith("\n") ? text : `\n${text}` });
}

/** `null` if the strategy is a value. */
function refuseSeveral(strategy: string | null, environment: EnvironmentSource): void {
  const refuse = (reason: string): never => {
    throw new ConfigurationError(`Cannot carry out several calls per turn (--calls several): ${reason}.`);
  };
  if (environment.calls === "one") {
    refuse(`"${environment.name}" carries out one, as its reference does; remove --calls`);
  }
  if (strategy === null) refuse("a strategy that is given as a value decides this itself; set its option calls");
  if (strategy === "act" || strategy === "react") {
    refuse(`a turn of strategy "${strategy}" is one action; use --strategy tool-calling, or remove --calls`);
  }
}

const tauBench = () => import("../environments/tau-bench/index.ts");
const tau2Bench = () => import("../environments/tau2-bench/index.ts");

async function displaysOf(
  { displays, data }: RolloutSettings,
  environment: EnvironmentSource,
  cwd: string,
): Promise<readonly string[]> {
  if (displays !== null) return parseDisplays(await readNamedFile(displays, cwd, "correct --displays."), displays);
  const [benchmark, domain = ""] = environment.name.split("/");
  const hasDisplays = data !== null && benchmark === "tau-bench";
  const found = hasDisplays ? await (await tauBench()).loadFewShotDisplays(resolve(cwd, data), domain) : null;
  if (found !== null) return found;
  throw new ConfigurationError(
    `Cannot run "${environment.name}" with strategy "few-shot": there are no example conversations; pass --displays <file>, or ` +
      "--data <folder>, a checkout of tau-bench with its few_shot_data.",
  );
}

function requireUsed(flag: string, isUsed: boolean, strategy: string): void {
  if (isUsed) return;
  throw new ConfigurationError(
    `Cannot use ${flag} with strategy "${strategy}": it has no effect there; remove one of them.`,
  );
}

/**
 * The source with recording; the source itself when `file` is `null`. Throws a `ConfigurationError`
 * when the file exists and the run is new.
 */
export async function recordUsers(
  source: UserSource,
  file: string | null,
  options: { readonly cwd: string; readonly redact: (text: string) => string; readonly resumes: boolean },
): Promise<UserSource> {
  if (file === null) return source;
  const path = resolve(options.cwd, file);
  if (!options.resumes && existsSync(path)) {
    throw new ConfigurationError(
      `Cannot record users to "${file}": the file exists; name a new one with --record-users.`,
    );
  }
  let written: Promise<void> = Promise.resolve();
  const { recordingUser } = await import("../users/index.ts");
  return recordingUser(source, (exchange) => {
    const line = `${options.redact(JSON.stringify(exchange))}\n`;
    const before = written;
    const writing = before.catch(() => undefined).then(() => appendFile(path, line));
    written = writing;
    return writing;
  });
}

/** Users that can be named; the others are chosen by their option. */
const selectable = Object.keys(userRows).filter((name) => userRows[name]!.runsWith !== "named");

/**
 * Throws a `ConfigurationError` for a user that is unknown, does not fit the environment, or is
 * incomplete.
 */
export async function chooseUser(
  settings: RolloutSettings,
  environment: EnvironmentSource,
  context: Surroundings,
): Promise<UserSource> {
  if (context.parts?.user !== undefined) return context.parts.user;
  const { user, replayUsers, preset } = settings;
  if (replayUsers !== null && user !== null && user !== "replay" && user !== presetDefaults(preset).user) {
    throw new ConfigurationError(
      "Cannot replay users and choose one at the same time: remove --user or --replay-users.",
    );
  }
  const name = replayUsers === null ? nameOfUser(settings, environment) : "replay";
  const isOwnOfEnvironment = name === "rules" && environment.users.includes(name);
  const row = Object.hasOwn(userRows, name) ? userRows[name]! : null;
  if (!isOwnOfEnvironment && (row === null || (name === "replay" && replayUsers === null))) {
    throw new ConfigurationError(
      `Cannot find user "${name}": ${suggestion(name, selectable) ?? `there are ${selectable.join(", ")}; choose one with --user.`}`,
    );
  }
  refuseForeignOptions(withoutPreset(settings), name, {
    noun: "user",
    flag: "--user",
    rows: userRows,
    own: row?.options ?? {},
  });
  if (row === null) return (await tau2Bench()).telecomRuleUser();
  if (!runsWith(environment, name, row)) {
    throw new ConfigurationError(
      `Cannot run "${environment.name}" with user "${name}": it runs with ${usersOf(environment)}; choose one with --user.`,
    );
  }
  const { createUser } = await row.load();
  return createUser({
    options: optionsOf(row.options, settings),
    model: () => modelOptions(name, settings, environment, context),
    readText: (file, remedy) => readNamedFile(file, context.cwd, remedy),
  });
}

/**
 * A recording can be replayed in any environment, and user "task" can repeat the instruction of any
 * task.
 */
function runsWith({ users }: EnvironmentSource, name: string, { runsWith: which }: UserRow): boolean {
  return (
    which === "everything" || which === "named" || users.includes(name) || (which === "llm" && users.includes("llm"))
  );
}

/** The settings with the defaults of users' options in place of what a preset gives them, which is not given by the caller. */
function withoutPreset(settings: RolloutSettings): Readonly<Record<string, unknown>> {
  const preset: Readonly<Record<string, unknown>> = presetDefaults(settings.preset);
  const values: Record<string, unknown> = { ...settings };
  for (const [name, { default: usual }] of Object.entries(userOptions)) {
    if (Object.hasOwn(preset, name) && preset[name] === values[name]) values[name] = usual;
  }
  return values;
}

/** The user of the settings; else one that an option chooses, and else the first that the environment lists. */
function nameOfUser(settings: RolloutSettings, { users }: EnvironmentSource): string {
  const { user, ...values }: Readonly<Record<string, unknown>> & Pick<RolloutSettings, "user"> = settings;
  const chosen = Object.entries(userRows).find(
    ([name, { chosenBy }]) => chosenBy !== null && values[chosenBy] !== null && users.includes(name),
  );
  return user ?? chosen?.[0] ?? users[0] ?? "llm";
}

function usersOf(environment: EnvironmentSource): string {
  return environment.users.filter((name) => name === "rules" || selectable.includes(name)).join(", ");
}

async function modelOptions(
  name: string,
  settings: RolloutSettings,
  environment: EnvironmentSource,
  context: Surroundings,
): Promise<ModelUserOptions> {
  const { env, cwd } = context;
  const { data, userModel, userUrl, userPrompts } = settings;
  if (userModel === null) {
    throw new ConfigurationError(
      `Cannot create user "${name}": no model is named; pass --user-model provider/model, or --user-url <address> and ` +
        `--user-model <its name there>. "${environment.name}" runs with ${usersOf(environment)}.`,
    );
  }
  const { apiKey, authorization } = readAccess("user", settings, env);
  const { pricesOf, ratesOf } = await import("./budget.ts");
  const hasPrompts = userPrompts === "data" && data !== null && environment.name.startsWith("tau-bench/");
  const prompts = hasPrompts ? await (await tauBench()).loadUserPrompts(resolve(cwd, data)) : null;
  return {
    model: userModel,
    variables: env,
    compat: settings.userCompat,
    prices: pricesOf(settings, cwd),
    ...ratesOf(settings, context),
    ...(prompts === null ? {} : { prompts }),
    ...(userUrl === null ? {} : { url: userUrl }),
    ...(apiKey === null ? {} : { apiKey }),
    authorization,
  };
}
