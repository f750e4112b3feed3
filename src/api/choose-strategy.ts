// The agent strategy of a rollout. Few-shot needs examples, which are data of a benchmark: they come with its folder, or in a
// file of their own.

import { resolve } from "node:path";
import { agentFactory, parseDisplays } from "../agents/index.ts";
import { type AgentStrategy, ConfigurationError, type EnvironmentSource } from "../core/index.ts";
import { loadFewShotDisplays } from "../environments/tau-bench/index.ts";
import type { RolloutSettings } from "./rollout-settings.ts";
import type { Surroundings } from "./surroundings.ts";
import { readSettingFile } from "./choose-model.ts";

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
    `Cannot play "${environment.name}" with strategy "few-shot": there are no example conversations; give --displays <file>, or ` +
      "--data <folder>, a checkout of tau-bench with its few_shot_data.",
  );
}

function requireUsed(flag: string, isUsed: boolean, strategy: string): void {
  if (isUsed) return;
  throw new ConfigurationError(
    `Cannot use ${flag} with strategy "${strategy}": nothing would read it; leave one of both out.`,
  );
}
