// Where upstream keeps what we read of τ²-bench, as a table. Not a reader. Paths are those of the pinned commit; a checkout of
// another commit is read as long as its files still say the same kind of thing.

import { pinUpstream } from "../../checkout/clone-upstream.ts";

export const { upstream, checkoutRemedy, parseSource } = pinUpstream({
  title: "τ²-bench",
  url: "https://github.com/sierra-research/tau2-bench.git",
  commit: "a2c024725189473d2d7cea3a5cfdbcc67478e41f",
});

type Toolkit = { readonly module: string; readonly className: string };

export type UpstreamDomain = {
  readonly name: string;
  /** Copied byte for byte. */
  readonly files: readonly string[];
  /** Copied where they are there. */
  readonly optionalFiles: readonly string[];
  readonly agent: Toolkit;
  readonly user: Toolkit | null;
};

const toolkit = (module: string, className: string): Toolkit => ({ module, className });

export const upstreamDomains: readonly UpstreamDomain[] = [
  {
    name: "mock",
    files: ["db.json", "user_db.json", "policy.md", "policy_solo.md", "tasks.json", "split_tasks.json"],
    optionalFiles: [],
    agent: toolkit("tools", "MockTools"),
    user: toolkit("user_tools", "MockUserTools"),
  },
  {
    name: "retail",
    files: ["db.json", "policy.md", "tasks.json", "split_tasks.json"],
    optionalFiles: [],
    agent: toolkit("tools", "RetailTools"),
    user: null,
  },
  {
    name: "airline",
    files: ["db.json", "policy.md", "tasks.json", "split_tasks.json"],
    optionalFiles: [],
    agent: toolkit("tools", "AirlineTools"),
    user: null,
  },
  {
    name: "telecom",
    files: [
      ...["db.toml", "user_db.toml", "main_policy.md", "main_policy_solo.md", "tech_support_manual.md"],
      ...["tech_support_workflow.md", "tech_support_workflow_solo.md", "tasks.json", "split_tasks.json"],
    ],
    optionalFiles: ["tasks_small.json"],
    agent: toolkit("tools", "TelecomTools"),
    user: toolkit("user_tools", "TelecomUserTools"),
  },
];

/** What upstream's agents are told. Its presence is what makes a folder a checkout. */
export const agentSource = "src/tau2/agent/llm_agent.py";

export const judgeSource = "src/tau2/evaluator/evaluator_nl_assertions.py";

/** What a user simulated by a model is told; copied byte for byte. */
export const guidelineFiles: readonly string[] = ["simulation_guidelines.md", "simulation_guidelines_tools.md"];
