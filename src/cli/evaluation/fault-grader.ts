// How an evaluation attributes failures: rules with what is known of each task, and a model for what they leave open when one
// is handed in.

import { attribute, type EnvironmentSource, type Task } from "../../core/index.ts";
import {
  attributeFault,
  type FailedEpisode,
  type FaultAttribution,
  judgeFault,
  type JudgeModel,
} from "../../graders/index.ts";
import { taskFactsOf } from "../../api/task-facts.ts";

export type FaultGrader = (task: Task, failed: Omit<FailedEpisode, "facts">) => Promise<FaultAttribution>;

export function createFaultGrader(options: {
  readonly environment: EnvironmentSource;
  /** Absolute; where the tasks of tau-bench come from. */
  readonly data: string | null;
  /** `null`: rules alone. */
  readonly judge: JudgeModel | null;
  /** Told of each failure that the judge could not be asked about. */
  readonly onJudgeFault: (reason: string) => void;
  readonly signal?: AbortSignal;
}): FaultGrader {
  const { environment, data, judge, onJudgeFault, signal } = options;
  const factsOf = taskFactsOf(environment, data);
  return async (task, failed) => {
    const episode = { ...failed, facts: await factsOf(task) };
    const byRules = attributeFault(episode);
    if (judge === null) return byRules;
    try {
      const { guidelines } = environment.open(task);
      return await judgeFault(judge, episode, { byRules, guidelines, ...(signal === undefined ? {} : { signal }) });
    } catch (error) {
      // A judge that cannot be reached takes nothing away from what the rules have said.
      onJudgeFault(attribute(error, "grader").failure.message);
      return byRules;
    }
  };
}
