// Recorded runs played again: the agent's actions through our environment, and the reward that it gives compared with the
// recorded one. The user's lines are taken from the record, so no model is asked.

import { type EnvironmentSource, outcomeOf, type StopReason, type Task } from "../../core/index.ts";
import { openChecked } from "../../rollout/index.ts";
import { isSuccess } from "../../graders/index.ts";
import { countActions, type EpisodeScore } from "./episode-score.ts";
import type { FaultGrader } from "./fault-grader.ts";
import type { RecordedRun } from "./read-tau-results.ts";

export type RescoredRun = {
  readonly score: EpisodeScore;
  readonly recordedReward: number;
  /** `null`: the run crashed, or left no trajectory, and there is nothing to play. */
  readonly replayedReward: number | null;
  /** Observations of tools that are not as they were recorded. */
  readonly changedObservations: number;
};

/** True where the environment does not give the recorded reward. */
export function isUnconfirmed({ recordedReward, replayedReward }: RescoredRun): boolean {
  return replayedReward !== null && Math.abs(recordedReward - replayedReward) > 1e-6;
}

export async function rescore(
  run: RecordedRun,
  parts: { readonly environment: EnvironmentSource; readonly task: Task; readonly gradeFault: FaultGrader },
): Promise<RescoredRun> {
  const { environment, task, gradeFault } = parts;
  const { conversation, reward, error } = run;
  const replayed = error === null && conversation.length > 0 ? await replay(run, environment, task) : null;
  const stop = replayed?.stop ?? "fault";
  const fault = isSuccess(reward)
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
      taskId: task.id,
      taskIndex: task.index,
      trial: run.trial,
      // As upstream counts: a crash is a failure.
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
  const world = await openChecked(environment, task);
  let stop: StopReason = "max_turns";
  let changed = 0;
  for (const step of run.conversation) {
    if (step.type === "agent") await world.hear(step.words);
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
}
