// Opens a folder of Harbor tasks for a run, by its name `harbor:<folder>`.

import { resolve } from "node:path";
import type { EnvironmentContext, LoadedEnvironment } from "../../parts/environment.ts";
import type { SettingValues } from "../../parts/setting.ts";
import { harborSource } from "./index.ts";
import type { harborOptions } from "./options.ts";

/** Margin between our deadlines, which give results, and those of the loop, which fail the episode. */
const marginMs = 5_000;

/** Rejects with a `ConfigurationError` for tasks, options or a machine that cannot be used. */
export async function openSource({
  rest,
  options: { harborNetwork, harborVariables, harborSkip },
  cwd,
  variables,
  limits: { callMs, gradeMs },
}: EnvironmentContext<SettingValues<typeof harborOptions>>): Promise<LoadedEnvironment> {
  const names = (harborVariables ?? "").split(",").map((name) => name.trim());
  const source = await harborSource(resolve(cwd, rest), {
    network: harborNetwork,
    variables: Object.fromEntries(names.filter((name) => name !== "").map((name) => [name, variables[name]])),
    skip: harborSkip,
    commandMs: within(callMs),
    gradeMs: within(gradeMs),
  });
  return { source, defaultSplit: "all", defaultTasks: "all" };
}

function within(deadlineMs: number): number {
  return Math.max(deadlineMs - marginMs, deadlineMs / 2);
}
