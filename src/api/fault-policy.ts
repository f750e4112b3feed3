// Applies a fault policy to played episodes: whoever failed through the user or the environment says nothing about the
// policy that is trained. Decided per episode, before its rows are written.

import type { EnvironmentSource, Episode, EpisodeSamples } from "../core/index.ts";
import {
  applyFaultPolicy,
  attributeFault,
  conversationOf,
  type FaultPolicy,
  isForeignFault,
  isSuccess,
} from "../graders/index.ts";
import type { RunEpisode } from "../rollout/index.ts";
import { taskFactsOf } from "./task-facts.ts";

type FaultPolicyOptions = {
  readonly policy: FaultPolicy;
  readonly environment: EnvironmentSource;
  /** As in the settings, absolute. */
  readonly data: string | null;
};

/** The player with the policy applied; itself when the policy is to keep everything. */
export function withFaultPolicy(play: RunEpisode, options: FaultPolicyOptions): RunEpisode {
  if (options.policy === "keep") return play;
  const judge = faultPolicyOf(options);
  return async (task, place) => {
    const played = await play(task, place);
    return { ...played, result: await judge(played.episode, played.result) };
  };
}

/** What of an episode is trained under the policy: a function of its record, so that it can be asked again later. */
export function faultPolicyOf({
  policy,
  environment,
  data,
}: FaultPolicyOptions): (episode: Episode, result: EpisodeSamples) => Promise<EpisodeSamples> {
  const factsOf = taskFactsOf(environment, data);
  return async (episode, result) => {
    // Aborted and failed episodes train nothing as it is.
    if (policy === "keep" || episode.reward === null || isSuccess(episode.reward)) return result;
    const { fault } = attributeFault({
      conversation: conversationOf(episode),
      outcome: episode.outcome,
      failure: episode.failure,
      facts: await factsOf(episode.task),
    });
    return isForeignFault(fault) ? applyFaultPolicy(result, { policy, trajectory: episode.trajectory }) : result;
  };
}
