// Where upstream keeps what we read, as a table. Not a reader. Paths are those of the pinned commit; a checkout of another
// commit is read as long as its files still say the same kind of thing.

import { pinUpstream } from "../../checkout/clone-upstream.ts";

export const { upstream, checkoutRemedy, parseSource } = pinUpstream({
  title: "τ-bench",
  url: "https://github.com/sierra-research/tau-bench.git",
  commit: "59a200c6d575d595120f1cb70fea53cef0632f6b",
});

export type UpstreamDomain = {
  readonly name: string;
  readonly tables: readonly string[];
  /** Name of each split, and of the list in its source file. */
  readonly splits: readonly { readonly name: string; readonly variable: string }[];
  readonly displays: string;
};

export const upstreamDomains: readonly UpstreamDomain[] = [
  {
    name: "retail",
    tables: ["users", "orders", "products"],
    splits: [
      { name: "train", variable: "TASKS_TRAIN" },
      { name: "test", variable: "TASKS_TEST" },
      { name: "dev", variable: "TASKS_DEV" },
    ],
    displays: "few_shot_data/MockRetailDomainEnv-few_shot.jsonl",
  },
  {
    name: "airline",
    tables: ["users", "flights", "reservations"],
    splits: [{ name: "test", variable: "TASKS" }],
    displays: "few_shot_data/MockAirlineDomainEnv-few_shot.jsonl",
  },
];

/** Prompts of the simulated users, shared by all domains. Its presence is what makes a folder a checkout. */
export const userSource = "tau_bench/envs/user.py";

export const domainFolder = (domain: UpstreamDomain): string => `tau_bench/envs/${domain.name}`;
