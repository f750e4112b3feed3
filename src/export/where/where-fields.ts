// What an expression can ask of an episode.

import type { Sample } from "../../core/index.ts";
import { type ExportOrigin, withRun } from "../export-origin.ts";

export type WhereValue = number | string | null;
export type WhereFields = Readonly<Record<WhereFieldName, WhereValue>>;

type FieldKind = { readonly type: "number" | "text"; readonly meaning: string };

/** Names, types and meanings; the meanings are shown by `--help`. */
export const whereFieldKinds = {
  reward: { type: "number", meaning: "of the episode" },
  outcome: { type: "text", meaning: '"completed" or "truncated"' },
  stop_reason: { type: "text", meaning: 'why it ended: "tool_ended", "max_turns", ...' },
  environment: { type: "text", meaning: "its name" },
  split: { type: "text", meaning: "of the task" },
  task_id: { type: "text", meaning: "of the task" },
  task_index: { type: "number", meaning: "number of the task in its split" },
  group_id: { type: "text", meaning: "of the group" },
  group_mean: { type: "number", meaning: "mean reward of the group" },
  decision: { type: "text", meaning: 'what became of the group: "kept", "dropped", "undecided"' },
  episode_id: { type: "text", meaning: "of the episode" },
  sample_index: { type: "number", meaning: "place in the group" },
  run: { type: "text", meaning: "name of the run; null when one run is exported" },
  turns: { type: "number", meaning: "actions of the agent" },
  tokens: { type: "number", meaning: "length of the longest sample" },
  sampled_tokens: { type: "number", meaning: "what the policy sampled" },
  samples: { type: "number", meaning: "branches that are trained" },
  problems: { type: "number", meaning: "problems of its actions" },
  history_policy: { type: "text", meaning: '"append-only", "keep-reasoning", "branch", "no-tokens"' },
} as const satisfies Readonly<Record<string, FieldKind>>;

export type WhereFieldName = keyof typeof whereFieldKinds;

export function whereFields(
  { episode, run, groupMean }: ExportOrigin,
  group: { readonly decision: string; readonly samples: readonly Sample[] },
): WhereFields {
  const { task, trajectory } = episode;
  return {
    reward: episode.reward,
    outcome: episode.outcome,
    stop_reason: episode.stopReason,
    environment: task.environment,
    split: task.split,
    task_id: task.id,
    task_index: task.index,
    group_id: withRun(run, episode.groupId),
    group_mean: groupMean,
    decision: group.decision,
    episode_id: episode.id,
    sample_index: episode.sampleIndex,
    run,
    // Of an agent behind an API there are decisions and no turns.
    turns: episode.events.reduce((count, { type }) => (type === "decision" ? count + 1 : count), 0),
    tokens: group.samples.reduce((longest, { tokens }) => Math.max(longest, tokens.length), 0),
    sampled_tokens: trajectory.turns.reduce((sum, turn) => sum + turn.sampledTokens.length, 0),
    samples: group.samples.length,
    problems: episode.problems.length,
    history_policy: episode.historyPolicy,
  };
}
