// Strategies by name; the only place that knows all of them. Each works in two ways: for training
// with an engine and a renderer, and for evaluation with a model behind an API.

import { type AgentStrategy, ConfigurationError } from "../core/index.ts";
import { createAct, createReact } from "./text-strategy.ts";
import { createFewShot, createToolCalling } from "./tool-calling.ts";
import type { ProblemPolicy } from "./decide-action.ts";
import { remedyFor } from "../lib/nearest.ts";

/** Options of all strategies; only those of the chosen strategy are read. */
export type AgentFactoryOptions = {
  /** Name of the strategy. Default "tool-calling". */
  readonly strategy?: string;
  /** Changes to the strategy's problem policy. */
  readonly problemPolicy?: Partial<ProblemPolicy>;
  /**
   * Option of "tool-calling" and "few-shot": "several" carries out all calls of a turn. Default
   * "one".
   */
  readonly calls?: "one" | "several";
  /** Option of "act" and "react": replaces our description of how actions are written. */
  readonly instruction?: string;
  /** Option of "few-shot": example conversations. */
  readonly displays?: readonly string[];
  /** Option of "few-shot": number of examples that an episode is shown. Default 5. */
  readonly displayCount?: number;
};

const makers: Readonly<Record<string, (options: AgentFactoryOptions) => AgentStrategy>> = {
  "tool-calling": createToolCalling,
  act: createAct,
  react: createReact,
  "few-shot": createFewShot,
};

export const strategyNames: readonly string[] = Object.keys(makers);

/** The strategy of a name. Throws a `ConfigurationError` that lists the known names for any other. */
export function agentFactory(options: AgentFactoryOptions = {}): AgentStrategy {
  const { strategy = "tool-calling" } = options;
  const make = Object.hasOwn(makers, strategy) ? makers[strategy] : undefined;
  if (options.calls === "several" && (strategy === "act" || strategy === "react")) {
    throw new ConfigurationError(
      `Cannot create an agent with strategy "${strategy}" and several calls per turn: each of its turns is one action; use "tool-calling".`,
    );
  }
  if (make !== undefined) return make(options);
  throw new ConfigurationError(
    `Cannot create an agent with strategy "${strategy}": it does not exist; ${remedyFor(strategy, strategyNames)}`,
  );
}
