// Who plays the policy of a request, told to the client in the service's own words when nobody can.

import { ConfigurationError } from "../core/index.ts";
import type { RunEpisode } from "../rollout/index.ts";
import type { PolicyRequest, ServiceParts } from "./service-parts.ts";
import { ServiceRefusal } from "./service-refusal.ts";

/** Throws a `ServiceRefusal` when the policy cannot be had. */
export function playerOf(policy: PolicyRequest, { player }: Pick<ServiceParts, "player">): RunEpisode {
  try {
    return player(policy);
  } catch (error) {
    if (error instanceof ConfigurationError) throw new ServiceRefusal("bad-request", error.message);
    throw error;
  }
}

/** Of a request that was accepted before: what is wrong with it now is told by its episodes. */
export function playerAgain(policy: PolicyRequest, parts: Pick<ServiceParts, "player">): RunEpisode {
  try {
    return playerOf(policy, parts);
  } catch (error) {
    return async () => {
      throw error;
    };
  }
}
