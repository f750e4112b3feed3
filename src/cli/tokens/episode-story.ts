// An episode of a run as tokens with roles: exactly what was recorded, nothing rendered anew. What the run folder does not
// know (which tokens of the first prompt are the system's and which the user's) is not made up: they are "history".

import type { Episode, Tokenizer } from "../../core/index.ts";
import { episodeSamples } from "../../rollout/index.ts";
import { turnPrompt } from "../../trajectories/index.ts";
import { untrained } from "../display/token-view.ts";
import { storySamples } from "./story-samples.ts";
import type { TokenRole, TokenStory } from "./token-story.ts";

export type EpisodeStoryOptions = {
  /** `null`: it is gone, and ids stand without text. */
  readonly tokenizer: Tokenizer | null;
  readonly renderer: string;
};

export function episodeStory(episode: Episode, { tokenizer, renderer }: EpisodeStoryOptions): TokenStory {
  const { samples, dropped } = episodeSamples(episode);
  const notes = dropped.map(({ turn, count, reason }) => `turn ${turn}: ${count} sampled tokens are in no sample (${reason})`); // prettier-ignore
  if (episode.historyPolicy === "no-tokens") notes.push("The agent was a model behind an API: there are no tokens.");
  if (tokenizer === null) notes.push("The tokenizer of the run is not there any more: tokens have no text.");
  const shown = samples.length > 0 ? samples : untrained(episode);
  return {
    renderer,
    tokenizer: tokenizer?.name ?? "none",
    historyPolicy: episode.historyPolicy,
    samples: storySamples({
      trajectory: episode.trajectory,
      samples: shown,
      roles: rolesOfTurns(episode),
      decode: (ids) => tokenizer?.decode(ids) ?? "",
    }),
    notes,
  };
}

function rolesOfTurns(episode: Episode): Map<number, readonly TokenRole[]> {
  const observed = observedRoles(episode);
  const all = new Map<number, readonly TokenRole[]>();
  for (const { index, parent, observationTokens, sampledTokens } of episode.trajectory.turns) {
    const before = parent === null ? [] : (all.get(parent) ?? []);
    const role: TokenRole = parent === null ? "history" : (observed.get(index) ?? "history");
    const rest = turnPrompt(episode.trajectory, index).length - before.length;
    all.set(index, [
      ...before,
      ...fill(Math.min(rest, observationTokens.length), role),
      ...fill(sampledTokens.length, "assistant"),
    ]);
  }
  return all;
}

/** What a turn was newly shown: the user's words, or what a tool or the loop answered. */
function observedRoles(episode: Episode): Map<number, TokenRole> {
  const roles = new Map<number, TokenRole>();
  let shown: TokenRole = "user";
  for (const event of episode.events) {
    if (event.type === "user-line") shown = "user";
    if (event.type === "decision") shown = "tool";
    if (event.type === "turn") roles.set(event.turn.index, shown);
  }
  return roles;
}

function fill(count: number, role: TokenRole): TokenRole[] {
  return Array.from({ length: count }, () => role);
}
