// Pairs for preference training (DPO and kin): the best and the worst of the episodes of a group that began with the same
// messages. Not per turn: after the first action two episodes have seen different things, so a pair compares what came of
// one beginning, tool results and users' words included.

import { type ChatMessage, conversationOf } from "./chat-messages.ts";
import type { ExportOrigin } from "./export-origin.ts";
import type { Columns } from "./row-columns.ts";
import { episodeFacts } from "./row-facts.ts";

export type PreferenceRow = {
  readonly prompt: readonly ChatMessage[];
  readonly chosen: readonly ChatMessage[];
  readonly rejected: readonly ChatMessage[];
  readonly score_chosen: number;
  readonly score_rejected: number;
  /** As in `SftRow`. */
  readonly tools: string | null;
  readonly metadata: PreferenceFacts;
};

export type PreferenceFacts = {
  readonly run: string | null;
  readonly environment: string;
  readonly split: string;
  readonly task_id: string;
  readonly group_id: string;
  readonly chosen_episode_id: string;
  readonly rejected_episode_id: string;
  /** Episodes that began alike. */
  readonly candidates: number;
};

export const preferenceColumns: Columns<PreferenceRow> = [
  { name: "prompt", type: "messages" },
  { name: "chosen", type: "messages" },
  { name: "rejected", type: "messages" },
  { name: "score_chosen", type: "double" },
  { name: "score_rejected", type: "double" },
  { name: "tools", type: "text" },
  { name: "metadata", type: "json" },
];

type Candidate = {
  readonly origin: ExportOrigin;
  readonly reward: number;
  readonly prompt: readonly ChatMessage[];
  readonly rest: readonly ChatMessage[];
};

/**
 * The pairs of one group: one for each beginning that at least two graded episodes share with different rewards. Of equal
 * rewards the first in the group is taken, so that the same run gives the same pairs.
 */
export function toPreferenceRows(
  origins: readonly ExportOrigin[],
  toolsOf: (origin: ExportOrigin) => string | null,
): PreferenceRow[] {
  const byBeginning = new Map<string, Candidate[]>();
  for (const origin of origins) {
    const { reward } = origin.episode;
    const { opening, rest } = conversationOf(origin.episode);
    if (reward === null || rest.length === 0) continue;
    const key = JSON.stringify(opening);
    const alike = byBeginning.get(key) ?? [];
    byBeginning.set(key, alike);
    alike.push({ origin, reward, prompt: opening, rest });
  }
  return [...byBeginning.values()].flatMap((alike) => {
    const best = alike.reduce((one, other) => (other.reward > one.reward ? other : one));
    const worst = alike.reduce((one, other) => (other.reward < one.reward ? other : one));
    return best.reward > worst.reward ? [pairOf(best, worst, { candidates: alike.length, toolsOf })] : [];
  });
}

function pairOf(
  best: Candidate,
  worst: Candidate,
  options: { readonly candidates: number; readonly toolsOf: (origin: ExportOrigin) => string | null },
): PreferenceRow {
  const { run, environment, split, task_id, group_id, episode_id } = episodeFacts(best.origin);
  return {
    prompt: best.prompt,
    chosen: best.rest,
    rejected: worst.rest,
    score_chosen: best.reward,
    score_rejected: worst.reward,
    tools: options.toolsOf(best.origin),
    metadata: {
      run,
      environment,
      split,
      task_id,
      group_id,
      chosen_episode_id: episode_id,
      rejected_episode_id: worst.origin.episode.id,
      candidates: options.candidates,
    },
  };
}
