// Score of an episode: numbers and a few strings, so that thousands fit in memory. Built from an
// episode of a run folder, or from a recorded run of another program.

import { createHash } from "node:crypto";
import {
  endingOf,
  type Episode,
  type Outcome,
  outcomeOf,
  type EnvironmentSource,
  type StopReason,
  type Task,
  useEnvironment,
} from "../core/index.ts";
import { episodeUsage, checkedOpening } from "../rollout/index.ts";
import type { FaultGrader } from "./model-judge.ts";
import { type Conversation, conversationOf } from "./conversation.ts";
import { type FaultAttribution } from "./fault-attribution.ts";
import { isSuccess } from "../statistics/index.ts";
import type { RecordedRun } from "./recorded-runs.ts";

export type Counts = Readonly<Record<string, number>>;

/** Durations of an episode, split by the part that took the time, in milliseconds. */
export type Durations = {
  readonly policy: number;
  readonly user: number;
  readonly tools: number;
};

export type EpisodeScore = {
  /**
   * Identifies the recording: a copy of it, in another file or a merged run, has the same value.
   */
  readonly recording: string;
  readonly taskId: string;
  readonly taskIndex: number;
  /** SHA-256 of the task's definition; `null` if it was not recorded. */
  readonly contentHash: string | null;
  readonly trial: number;
  /** Reward; `null` if the episode was not graded. */
  readonly reward: number | null;
  readonly outcome: Outcome;
  /**
   * Reason why it ended, in the environment's own name if it has one; `boundary/code` for an
   * episode that failed.
   */
  readonly ending: string;
  /**
   * Number of calls of the engine or of the agent's model; for a recorded conversation, number of
   * the agent's calls and utterances. `null` if it was not recorded.
   */
  readonly turns: number | null;
  /** Number of tool calls; `null` if it was not recorded. */
  readonly toolCalls: number | null;
  /** Number of calls that were refused or threw an error, by `tool: kind of error`. */
  readonly toolErrors: Counts;
  /** Number of format errors in actions, by code. */
  readonly problems: Counts;
  /**
   * Cost of an agent that uses an API, in US dollars; 0 for an engine, `null` if it is not known.
   */
  readonly agentCost: number | null;
  /** Cost of the user, in US dollars; `null` if it is not known. */
  readonly userCost: number | null;
  /** Durations; `null` if they are not known. */
  readonly durations: Durations | null;
  /** Attribution of the failure; `null` for a success. */
  readonly fault: FaultAttribution | null;
};

/** Scores an episode. */
export async function scoreEpisode(episode: Episode, gradeFault: FaultGrader): Promise<EpisodeScore> {
  const conversation = conversationOf(episode);
  const { task, sampleIndex, reward, failure, stopReason, events } = episode;
  const durations = { policy: 0, user: 0, tools: 0 };
  const { agent, user } = episodeUsage(episode);
  for (const event of events) {
    if (event.type === "turn" || event.type === "agent-reply") durations.policy += event.durationMs;
    if (event.type === "tool-result") durations.tools += event.durationMs;
    if (event.type === "user-line") durations.user += event.durationMs;
  }
  const outcome = outcomeOf(stopReason);
  const isFailed = reward === null || !isSuccess(reward);
  const fault = isFailed ? await gradeFault(task, { conversation, outcome, failure }) : null;
  return {
    recording: recordingOf(episode),
    taskId: task.id,
    taskIndex: task.index,
    contentHash: task.contentHash,
    trial: sampleIndex,
    reward,
    outcome,
    ending: failure === null ? (endingOf(episode) ?? stopReason) : `${failure.boundary}/${failure.code}`,
    ...countActions(conversation),
    ...programCalls(events),
    turns: events.filter(({ type }) => type === "turn" || type === "agent-reply").length,
    problems: count(episode.problems.map(({ code }) => code)),
    agentCost: agent.cost,
    userCost: user.cost,
    durations,
    fault,
  };
}

/**
 * Runs with equal settings have episodes with the same ids, but no two take the same time in every
 * step.
 */
function recordingOf({ id, seed, task, events }: Episode): string {
  const steps = events.map((event) => ("durationMs" in event ? [event.type, event.durationMs] : event.type));
  return createHash("sha256")
    .update(JSON.stringify([id, seed, task.id, task.contentHash, steps]))
    .digest("hex");
}

/**
 * Removes scores of recordings that earlier sources already had. `seen`: recordings of earlier
 * sources; new ones are added.
 */
export function onceEach(
  scores: readonly EpisodeScore[],
  seen: Set<string> = new Set(),
): { readonly scores: readonly EpisodeScore[]; readonly repeated: number } {
  const kept = scores.filter(({ recording }) => {
    const isNew = !seen.has(recording);
    seen.add(recording);
    return isNew;
  });
  return { scores: kept, repeated: scores.length - kept.length };
}

/**
 * Number of tool calls in the answers to an external program, which runs them itself; empty for any
 * other episode.
 */
function programCalls(events: Episode["events"]): { readonly toolCalls?: number } {
  const actions = events.flatMap((event) => (event.type === "exchange" ? [event.action] : []));
  const isProgram = events.some(({ type }) => type === "session");
  return isProgram ? { toolCalls: actions.reduce((sum, { toolCalls }) => sum + toolCalls.length, 0) } : {};
}

/** Counts of the agent's actions in a conversation. */
export function countActions(conversation: Conversation): Pick<EpisodeScore, "turns" | "toolCalls" | "toolErrors"> {
  const calls = conversation.filter((step) => step.type === "call");
  return {
    turns: conversation.filter(({ type }) => type === "agent" || type === "call").length,
    toolCalls: calls.length,
    toolErrors: count(
      calls.flatMap((step) =>
        step.type === "call" && step.isError ? [`${step.name}: ${errorKind(step.result)}`] : [],
      ),
    ),
  };
}

/** An error without its specific values, so that errors of one kind are counted together. */
export function errorKind(result: string): string {
  // The result of a tool may be as long as the output of a model.
  const kind = result
    .slice(0, 400)
    .replace(/^Error:\s*/, "")
    .replaceAll(/'[^']*'|"[^"]*"/g, "…")
    .split(/\s+/)
    .map((word) => (/\d/.test(word) ? "…" : word))
    .join(" ")
    .trim();
  return kind.length > 80 ? `${kind.slice(0, 80)}…` : kind;
}

export function count(names: readonly string[]): Counts {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return Object.fromEntries(counts);
}

export type RescoredRun = {
  readonly score: EpisodeScore;
  /** Recorded reward; `null` if the run was not scored. */
  readonly recordedReward: number | null;
  /** Reward after the replay; `null` if the run crashed, or left no trajectory to replay. */
  readonly replayedReward: number | null;
  /** Number of tool results that differ from the recording. */
  readonly changedObservations: number;
};

/** True if the environment does not reproduce the recorded reward. */
export function isUnconfirmed({ recordedReward, replayedReward }: RescoredRun): boolean {
  return recordedReward !== null && replayedReward !== null && Math.abs(recordedReward - replayedReward) > 1e-6;
}

export async function rescore(
  run: RecordedRun,
  parts: { readonly environment: EnvironmentSource; readonly task: Task; readonly gradeFault: FaultGrader },
): Promise<RescoredRun> {
  const { environment, task, gradeFault } = parts;
  const { conversation, reward, error } = run;
  const replayed = error === null && conversation.length > 0 ? await replay(run, environment, task) : null;
  const stop = replayed?.stop ?? "fault";
  const fault =
    reward === null || isSuccess(reward)
      ? null
      : await gradeFault(task, {
          conversation,
          outcome: outcomeOf(stop),
          failure:
            error === null && replayed !== null
              ? null
              : {
                  boundary: "engine",
                  code: "recorded-crash",
                  message: error ?? "no trajectory",
                  retryable: false,
                  cause: null,
                },
        });
  return {
    score: {
      recording: run.recording,
      taskId: task.id,
      taskIndex: task.index,
      contentHash: task.contentHash,
      trial: run.trial,
      // A crash counts as a failure, the same as upstream.
      reward,
      outcome: outcomeOf(stop),
      ending: replayed === null ? "engine/recorded-crash" : stop,
      ...countActions(conversation),
      problems: {},
      agentCost: null,
      userCost: run.userCost,
      durations: null,
      fault,
    },
    recordedReward: reward,
    replayedReward: replayed?.reward ?? null,
    changedObservations: replayed?.changed ?? 0,
  };
}

type Replayed = { readonly reward: number; readonly stop: StopReason; readonly changed: number };

async function replay(run: RecordedRun, environment: EnvironmentSource, task: Task): Promise<Replayed> {
  return useEnvironment(checkedOpening(environment), task, async (world) => {
    let stop: StopReason = "max_turns";
    let changed = 0;
    for (const step of run.conversation) {
      if (step.type === "agent") await world.receiveUtterance(step.text);
      if (step.type === "user" && step.hangsUp) stop = "user_hung_up";
      if (step.type === "call") {
        const { text, endsEpisode } = await world.call({ name: step.name, arguments: step.arguments });
        if (text !== step.result) changed++;
        if (endsEpisode) stop = "tool_ended";
      }
      if (stop !== "max_turns") break;
    }
    const outcome = stop === "max_turns" ? "truncated" : "completed";
    return { reward: (await world.grade({ outcome })).reward, stop, changed };
  });
}
