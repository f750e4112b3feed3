// Public entry of the graders: models that grade, and the analysis of results: statistics over
// trials, scores of episodes and of recorded runs, and attribution of failures. Environments
// compute their own rewards.

export {
  type Conversation,
  conversationOf,
  type ConversationStep,
  type KnownFact,
  type TaskFacts,
} from "./conversation.ts";
export {
  countActions,
  type Counts,
  type EpisodeScore,
  isUnconfirmed,
  onceEach,
  rescore,
  type RescoredRun,
  scoreEpisode,
} from "./episode-score.ts";
export { type Evaluation, evaluationOf, type TaskResult } from "./evaluation.ts";
export {
  applyFaultPolicy,
  attributeFault,
  type FailedEpisode,
  type Fault,
  type FaultAttribution,
  type FaultPolicy,
  faultPolicies,
  faults,
  isForeignFault,
} from "./fault-attribution.ts";
export {
  type CachedAnswer,
  createJudge,
  type JudgeCache,
  type JudgeModelOptions,
  openJudgeCache,
  replayingJudge,
} from "./judge.ts";
export { type Agreement, agreementOf, type LabelFile, readLabels } from "./labels.ts";
export { createFaultGrader, type FaultGrader, judgeFault, type JudgeModel, type JudgeOptions } from "./model-judge.ts";
export {
  type CriterionDefinition,
  defineRanking,
  defineRubric,
  groupRanker,
  type JudgedDefinition,
  type RubricDefinition,
  rubricGrader,
} from "./rubric.ts";
export { readTauResults, tauResult, tauResultsText } from "./recorded-runs.ts";
export {
  commonTrials,
  differenceInterval,
  type Interval,
  type IntervalOptions,
  isSuccess,
  meanInterval,
  passAtK,
  passHatK,
  type PassRate,
  rateInterval,
  type TaskTally,
} from "../statistics/index.ts";
