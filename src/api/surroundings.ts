// What options are read against: the process they are given in, and parts that a program gives as values.

import type { AgentStrategy, ChatAgent, Engine, EnvironmentSource, UserSource } from "../core/index.ts";
import type { GroupFilter } from "../rollout/index.ts";

/** Environment variables, and the folder that relative paths start from. */
export type Surroundings = {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** Used in place of what the settings of the same meaning name. Default: none. */
  readonly parts?: GivenParts;
};

/** Parts of a rollout that a program gives as values. */
export type GivenParts = {
  readonly env?: EnvironmentSource;
  readonly engine?: Engine;
  readonly agentModel?: ChatAgent;
  readonly strategy?: AgentStrategy;
  readonly user?: UserSource;
  readonly filter?: readonly GroupFilter[];
};
