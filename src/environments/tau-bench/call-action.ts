// One call on a world, as both layers above do it: the environment of our loop and the reference's own episode.

import type { TauAction } from "./action.ts";
import type { TauDomain } from "./domain.ts";
import { runTool } from "./tool.ts";
import type { World } from "./world.ts";

export type CallResult = {
  /** `null` where the tool of the reference returns None. */
  readonly observation: string | null;
  readonly endsEpisode: boolean;
};

export function callAction(domain: TauDomain, world: World, { name, kwargs }: TauAction): CallResult {
  const tool = domain.tools.find((candidate) => candidate.name === name);
  if (tool === undefined) return { observation: `Unknown action ${name}`, endsEpisode: false };
  return {
    observation: runTool(tool, world, { domain: domain.name, kwargs }),
    endsEpisode: domain.terminating.has(name),
  };
}
