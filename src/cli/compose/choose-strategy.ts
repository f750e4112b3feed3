// The agent strategy of a rollout. Few-shot needs examples, which are data of a benchmark: they come with its folder.

import { resolve } from "node:path";
import { agentFactory } from "../../agents/index.ts";
import { type AgentStrategy, ConfigurationError, type EnvironmentSource } from "../../core/index.ts";
import { loadFewShotDisplays } from "../../environments/tau-bench/index.ts";

export async function chooseStrategy(
  settings: { readonly strategy: string; readonly data: string | null },
  environment: EnvironmentSource,
  cwd: string,
): Promise<AgentStrategy> {
  const { strategy, data } = settings;
  if (strategy !== "few-shot") return agentFactory({ strategy });
  const [benchmark, domain = ""] = environment.name.split("/");
  const displays =
    data === null || benchmark !== "tau-bench" ? null : await loadFewShotDisplays(resolve(cwd, data), domain);
  if (displays !== null) return agentFactory({ strategy, displays });
  throw new ConfigurationError(
    `Cannot play "${environment.name}" with strategy "few-shot": there are no example conversations; give --data <folder>, a ` +
      "checkout of tau-bench with its few_shot_data, or use another --strategy.",
  );
}
