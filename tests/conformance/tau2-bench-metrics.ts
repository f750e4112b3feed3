// Records of τ²-bench's reports on many simulations, compared with our statistics, and of the seeds
// of its trials.

import { trialSeeds } from "#src/environments/tau2-bench/index.ts";
import { commonTrials, isSuccess, passHatK, type TaskTally } from "#src/graders/index.ts";
import { JsonFloat, type JsonObject, type JsonValue } from "#src/python-semantics/json/index.ts";
import { asObject, pick, type Played } from "./tau2-bench-worlds.ts";

const numberOf = (value: JsonValue | undefined): number => (value instanceof JsonFloat ? value.value : Number(value));

/** Sums may be computed in another order than the reference's. */
const rounded = (value: number): JsonFloat => new JsonFloat(Number(value.toPrecision(12)));
const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

export function playMetrics(record: JsonObject): Played {
  if (record.has("seed")) {
    const seeds = record.get("trial_seeds") as JsonValue[];
    const actual = trialSeeds(record.get("seed") as number, seeds.length);
    return { expected: pick(record, ["trial_seeds"]), actual: asObject({ trial_seeds: actual }) };
  }
  if (record.get("what") === "pass_hat_k") {
    const byK = record.get("k") as JsonObject;
    const tally = { taskId: "0", trials: record.get("trials") as number, successes: record.get("successes") as number };
    return {
      expected: [...byK.values()].map((value) => rounded(numberOf(value))),
      actual: [...byK.keys()].map((k) => rounded(passHatK([tally], Number(k)) ?? NaN)),
    };
  }
  return { expected: expectedMetrics(record.get("expected") as JsonObject), actual: metricsOf(record) };
}

function expectedMetrics(expected: JsonObject): JsonObject {
  const metrics = new Map(expected);
  for (const key of ["avg_reward", "avg_agent_cost"]) metrics.set(key, rounded(numberOf(expected.get(key))));
  const passes = [...(expected.get("pass_hat_ks") as JsonObject)];
  return metrics.set("pass_hat_ks", new Map(passes.map(([k, value]) => [k, rounded(numberOf(value))])));
}

/** Failed simulations are excluded from the averages, and count as trials without success. */
function metricsOf(record: JsonObject): JsonObject {
  const simulations = record.get("simulations") as JsonObject[];
  const graded = simulations.filter((one) => one.get("termination_reason") !== "infrastructure_error");
  const tallies = new Map<string, TaskTally>();
  for (const one of simulations) {
    const taskId = one.get("task_id") as string;
    const { trials, successes } = tallies.get(taskId) ?? { trials: 0, successes: 0 };
    const reward = one.get("reward") ?? null;
    const won = reward !== null && isSuccess(numberOf(reward));
    tallies.set(taskId, { taskId, trials: trials + 1, successes: successes + Number(won) });
  }
  const all = [...tallies.values()];
  const passes = Array.from({ length: commonTrials(all) }, (_, index): [string, JsonValue] => [
    String(index + 1),
    rounded(passHatK(all, index + 1) ?? NaN),
  ]);
  return asObject({
    avg_reward: rounded(mean(graded.map((one) => numberOf(one.get("reward"))))),
    pass_hat_ks: new Map(passes),
    avg_agent_cost: rounded(mean(simulations.map((one) => numberOf(one.get("agent_cost"))))),
    total_simulations: graded.length,
    total_tasks: new Set(graded.map((one) => one.get("task_id"))).size,
    infra_error_count: simulations.length - graded.length,
  });
}
