// Files of other tools as scores. Rewards are those of the file; what it does not record stays unknown.

import type { EpisodeScore } from "../graders/index.ts";
import { type ForeignEpisode, type ForeignFile, foreignTurns } from "../foreign/index.ts";

/** As in "inspect: popularity". */
export function titleOf({ format, title }: ForeignFile): string {
  return title === null ? format : `${format}: ${title}`;
}

/** One per episode, by task and trial. Tasks are numbered as they come. */
export async function scoreForeign(file: ForeignFile): Promise<EpisodeScore[]> {
  const indexes = new Map<string, number>();
  const trials = new Map<string, number>();
  const scores: EpisodeScore[] = [];
  for await (const episode of file.episodes()) {
    const { taskId, contentHash, reward, trial, stopReason, error, messages } = episode;
    if (!indexes.has(taskId)) indexes.set(taskId, indexes.size);
    const place = trials.get(taskId) ?? 0;
    trials.set(taskId, place + 1);
    scores.push({
      ...{ taskId, taskIndex: indexes.get(taskId) ?? 0, contentHash, trial: trial ?? place, reward },
      outcome: outcomeOf(episode),
      ending: error === null ? (stopReason ?? "not recorded") : "error",
      turns: foreignTurns(episode),
      toolCalls: messages?.reduce((sum, { toolCalls }) => sum + toolCalls.length, 0) ?? null,
      ...{ toolErrors: {}, problems: {}, agentCost: episode.agentCost, userCost: episode.userCost },
      ...{ durations: null, fault: null },
    });
  }
  return scores.toSorted((a, b) => a.taskIndex - b.taskIndex || a.trial - b.trial);
}

function outcomeOf({ error, isTruncated }: ForeignEpisode): EpisodeScore["outcome"] {
  if (error !== null) return "failed";
  return isTruncated === true ? "truncated" : "completed";
}
