// Applies a fault policy to played episodes: whoever failed through the user or the environment says nothing about the
// policy that is trained. Decided per episode, before its rows are written.

import type { EnvironmentSource } from "../../core/index.ts";
import {
  applyFaultPolicy,
  attributeFault,
  conversationOf,
  type FaultPolicy,
  isForeignFault,
  isSuccess,
} from "../../graders/index.ts";
import type { EpisodePlayer } from "../../runs/index.ts";
import { taskFactsOf } from "../evaluation/task-facts.ts";

/** The player with the policy applied; itself when the policy is to keep everything. `data` as in the settings, absolute. */
export function withFaultPolicy(
  play: EpisodePlayer,
  options: { readonly policy: FaultPolicy; readonly environment: EnvironmentSource; readonly data: string | null },
): EpisodePlayer {
  const { policy, environment, data } = options;
  if (policy === "keep") return play;
  const factsOf = taskFactsOf(environment, data);
  return async (task, place) => {
    const played = await play(task, place);
    const { episode, result } = played;
    // Aborted and failed episodes train nothing as it is.
    if (episode.reward === null || isSuccess(episode.reward)) return played;
    const { fault } = attributeFault({
      conversation: conversationOf(episode),
      outcome: episode.outcome,
      failure: episode.failure,
      facts: await factsOf(task),
    });
    if (!isForeignFault(fault)) return played;
    return { ...played, result: applyFaultPolicy(result, { policy, trajectory: episode.trajectory }) };
  };
}
