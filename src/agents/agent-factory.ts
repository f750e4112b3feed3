// Strategies by name: the one place that knows which there are. Each works in two ways: with an engine and a renderer,
// trainable, and with a model behind an API, for evaluation.

import { type AgentStrategy, ConfigurationError } from "../core/index.ts";
import { createAct, createReact } from "./text-strategy.ts";
import { createFewShot, createToolCalling } from "./tool-calling.ts";
import type { ProblemPolicy } from "./decide-action.ts";
import { remedyFor } from "../lib/nearest.ts";

/** Options of all strategies; only those of the chosen strategy are read. */
export type AgentFactoryOptions = {
  /** Default "tool-calling". */
  readonly strategy?: string;
  /** Changes to the strategy's problem policy. */
  readonly problemPolicy?: Partial<ProblemPolicy>;
  /** For "tool-calling" and "few-shot": whether all calls of a turn are carried out. Default "one". */
  readonly calls?: "one" | "several";
  /** For "act" and "react": replaces our description of how actions are written. */
  readonly instruction?: string;
  /** For "few-shot": example conversations. */
  readonly displays?: readonly string[];
  /** For "few-shot": how many of them an episode is shown. Default 5. */
  readonly displayCount?: number;
};

const makers: Readonly<Record<string, (options: AgentFactoryOptions) => AgentStrategy>> = {
  "tool-calling": createToolCalling,
  act: createAct,
  react: createReact,
  "few-shot": createFewShot,
};

export const strategyNames: readonly string[] = Object.keys(makers);

/** The strategy of a name. Throws a `ConfigurationError` that lists what there is for any other. */
export function agentFactory(options: AgentFactoryOptions = {}): AgentStrategy {
  const { strategy = "tool-calling" } = options;
  const make = Object.hasOwn(makers, strategy) ? makers[strategy] : undefined;
  if (options.calls === "several" && (strategy === "act" || strategy === "react")) {
    throw new ConfigurationError(
      `Cannot make an agent with strategy "${strategy}" and several calls a turn: its turns are one action; use "tool-calling".`,
    );
  }
  if (make !== undefined) return make(options);
  throw new ConfigurationError(
    `Cannot make an agent with strategy "${strategy}": there is none of that name; ${remedyFor(strategy, strategyNames)}`,
  );
}
