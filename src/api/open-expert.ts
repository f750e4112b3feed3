// The expert as an engine in this process. As a server: `open-expert-server.ts`.

import type { SettingValues } from "../parts/setting.ts";
import type { EngineContext, OpenedEngine } from "../parts/engine.ts";
import { createExpertEngine } from "../environments/bookshop/expert-sampler.ts";
import type { expertOptions } from "../environments/bookshop/expert-options.ts";

export type ExpertContext = Pick<
  EngineContext<SettingValues<typeof expertOptions>>,
  "options" | "model" | "environment" | "concurrency"
>;

export async function openEngine(context: ExpertContext): Promise<OpenedEngine> {
  const weightVersion = "default";
  return { engine: createExpertEngine({ ...(await expertOf(context)), weightVersion }), weightVersion };
}

/** Options of the expert for the environment; in a world of tau2-bench, also its way to act. */
export async function expertOf({ options: { expertNoise: noise }, model: { tokenizer }, environment }: ExpertContext) {
  if (!environment.startsWith("tau2-bench/")) return { tokenizer, noise };
  const { telecomExpertAction: act } = await import("../environments/tau2-bench/index.ts");
  return { tokenizer, noise, act };
}
