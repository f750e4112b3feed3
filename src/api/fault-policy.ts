// The fault policy of a rollout, and the facts about a task that graders may know for it: for
// τ-bench and τ²-bench the expected calls and the identity of the user, for others the fields that
// every task has. An episode that failed because of the user or the environment says nothing about
// the policy.

import { type EnvironmentSource, type Task, type Episode, type EpisodeSamples, useEnvironment } from "../core/index.ts";
import type { DomainData } from "../environments/tau-bench/index.ts";
import type { FaultPolicy, TaskFacts } from "../graders/index.ts";
import { checkedOpening, type RunEpisode } from "../rollout/loop.ts";

type FaultPolicyOptions = {
  readonly policy: FaultPolicy;
  readonly environment: EnvironmentSource;
  /** The path from the settings, made absolute. */
  readonly data: string | null;
};

/** The runner with the policy applied; the runner itself when the policy is "keep". */
export function withFaultPolicy(runEpisode: RunEpisode, options: FaultPolicyOptions): RunEpisode {
  if (options.policy === "keep") return runEpisode;
  const apply = faultPolicyOf(options);
  return async (task, place) => {
    const finished = await runEpisode(task, place);
    return { ...finished, result: await apply(finished.episode, finished.result) };
  };
}

/**
 * Computes the samples that the policy allows to be trained from the record of an episode only, so
 * it can be applied again later.
 */
export function faultPolicyOf({
  policy,
  environment,
  data,
}: FaultPolicyOptions): (episode: Episode, result: EpisodeSamples) => Promise<EpisodeSamples> {
  const factsOf = taskFactsOf(environment, data);
  return async (episode, result) => {
    // Aborted and failed episodes are never trained on.
    if (policy === "keep" || episode.reward === null) return result;
    const graders = await import("../graders/index.ts");
    if (graders.isSuccess(episode.reward)) return result;
    const { fault } = graders.attributeFault({
      conversation: graders.conversationOf(episode),
      outcome: episode.outcome,
      failure: episode.failure,
      facts: await factsOf(episode.task),
    });
    if (!graders.isForeignFault(fault)) return result;
    return graders.applyFaultPolicy(result, { policy, trajectory: episode.trajectory });
  };
}

export type TaskFactsSource = (task: Task) => Promise<TaskFacts>;

const tauBench = "tau-bench/";
const tau2Bench = /^tau2-bench\/(.+?)(-solo)?$/;

/**
 * `data`: folder that the tasks of τ-bench or τ²-bench were loaded from; `null` for other
 * environments.
 */
export function taskFactsOf(environment: EnvironmentSource, data: string | null): TaskFactsSource {
  const domain = environment.name.startsWith(tauBench) ? environment.name.slice(tauBench.length) : null;
  const known = new Map<string, Promise<TaskFacts>>();
  const make = async (task: Task): Promise<TaskFacts> => {
    const [, tau2 = null, solo] = tau2Bench.exec(environment.name) ?? [];
    // Without a user, only the agent can be at fault.
    if (tau2 !== null && data !== null && solo === undefined) {
      const { loadTau2Data, playableTasks } = await import("../environments/tau2-bench/index.ts");
      const loaded = await loadTau2Data({ domain: tau2, folder: data });
      const found = (await playableTasks(loaded, task.split))[task.index];
      if (found !== undefined) return (await import("./tau2-facts.ts")).tau2Facts(loaded, found);
    }
    if (domain === null || data === null) return unknownEnd(environment, task);
    const { loadTauBench } = await import("../environments/tau-bench/index.ts");
    return tauBenchFacts(environment, task, await loadTauBench({ domain, folder: data }));
  };
  return (task) => {
    const facts = known.get(task.id) ?? make(task);
    known.set(task.id, facts);
    return facts;
  };
}

async function unknownEnd(environment: EnvironmentSource, task: Task): Promise<TaskFacts> {
  const known = await toolsOf(environment, task);
  return {
    instruction: task.instruction,
    ...known,
    expectedCalls: null,
    isReachable: null,
    knownFacts: [],
  };
}

/** No tools if the environment cannot be opened, which also failed the episode. */
async function toolsOf(environment: EnvironmentSource, task: Task): Promise<Pick<TaskFacts, "tools" | "userTools">> {
  try {
    return await useEnvironment(checkedOpening(environment), task, ({ tools, userSide }) => {
      return { tools, userTools: userSide?.tools ?? [] };
    });
  } catch {
    // The episode records the reason.
    return { tools: [], userTools: [] };
  }
}

async function tauBenchFacts(environment: EnvironmentSource, task: Task, data: DomainData): Promise<TaskFacts> {
  const found = data.tasks.get(task.split)?.[task.index];
  if (found === undefined) return unknownEnd(environment, task);
  const expectedCalls = found.actions.map(({ name, kwargs }) => ({ name, arguments: kwargs }));
  const userId = found.info.get("user_id");
  const { reward } = await useEnvironment(checkedOpening(environment), task, async (world) => {
    for (const call of expectedCalls) {
      const { endsEpisode } = await world.call(call);
      if (endsEpisode) break;
    }
    await world.receiveUtterance(found.outputs.join(" "));
    return world.grade({ outcome: "completed" });
  });
  return {
    instruction: task.instruction,
    tools: data.tools,
    userTools: [],
    expectedCalls,
    isReachable: reward === 1,
    knownFacts: typeof userId === "string" ? [{ name: "user id", value: userId }] : [],
  };
}
