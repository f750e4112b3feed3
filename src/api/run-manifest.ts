// run.json: what a run is and what came of it. Names of keys are for people; inspect reads `model` to find the tokenizer.

import { readFileSync } from "node:fs";
import { fromPlain } from "../python-semantics/json/plain.ts";
import type { JsonObject, JsonValue } from "../python-semantics/json/value.ts";
import type { RunTotals } from "../rollout/index.ts";
import type { ConnectedPolicy } from "./choose-policy.ts";
import type { PreparedRollout } from "./prepare-rollout.ts";
import { settingsJson } from "./resolve-settings.ts";
import type { RolloutSettings } from "./rollout-settings.ts";

export type RunFacts = {
  /** Random; the same after a resume and in a copy of the folder. */
  readonly id: string;
  readonly settings: RolloutSettings;
  readonly prepared: PreparedRollout;
  readonly engine: ConnectedPolicy;
  readonly begun: Date;
  /** How often the run was resumed. */
  readonly resumed: number;
  readonly ended: Date | null;
  readonly status: "running" | "done" | "interrupted" | "failed";
  readonly totals: RunTotals | null;
  readonly error: string | null;
};

export function runManifest(facts: RunFacts): JsonObject {
  const { settings, prepared, engine, begun, ended } = facts;
  const { model, plan, environment } = prepared;
  const plain: Readonly<Record<string, unknown>> = {
    id: facts.id,
    status: facts.status,
    startedAt: begun.toISOString(),
    finishedAt: ended?.toISOString() ?? null,
    resumed: facts.resumed,
    versions: { "trainable-agents": packageVersion(), node: process.versions.node },
    seed: settings.seed,
    environment: { name: environment.name, split: settings.split, tasks: plan.taskIndexes.length },
    model:
      model === null
        ? null
        : {
            folder: model.folder,
            tokenizer: model.tokenizer.name,
            vocabularySize: model.tokenizer.vocabularySize,
            renderer: model.renderer.family,
            historyPolicy: model.renderer.historyPolicy,
            parsers: model.renderer.parsers,
          },
    // `null`: an agent behind an API played.
    engine:
      settings.engine === null
        ? null
        : { name: settings.engine, address: engine.address, weightVersion: engine.weightVersion },
    agent: settings.agentModel === null ? null : { name: settings.agentModel, address: engine.address },
    user: prepared.user.name,
    configuration: settingsJson(settings),
    totals: facts.totals,
    error: facts.error,
  };
  return new Map<string, JsonValue>(Object.entries(plain).map(([key, value]) => [key, fromPlain(value)]));
}

let version: string | null = null;

/** Ours, from package.json. */
export function packageVersion(): string {
  if (version !== null) return version;
  const manifest: unknown = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));
  const found = typeof manifest === "object" && manifest !== null && "version" in manifest ? manifest.version : null;
  version = typeof found === "string" ? found : "unknown";
  return version;
}
