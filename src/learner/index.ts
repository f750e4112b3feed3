// Public entry of the learner: training of the embedded model. A trainer makes gradients and updates on threads; a policy
// learner runs episodes and learns from their rewards; cloning imitates given samples; a training run measures, learns and
// measures again. Engines, environments and everything else arrive as values.

export { type ClonedSample, CloningLearner, type CloningOptions, readClonedSamples } from "./cloning-learner.ts";
export { type CollapseLimits, CollapseWatch, defaultCollapseLimits } from "./collapse-watch.ts";
export { compare, type ComparedKind, fallenCases, type TaskOutcome, type TaskTraits } from "./comparison.ts";
export {
  type AdvantageOptions,
  type Baseline,
  groupAdvantages,
  policySequences,
  type Sabotage,
  type WeightedSample,
} from "./group-advantages.ts";
export {
  cloningSequence,
  disagreement,
  type LogprobAgreement,
  logprobAgreement,
  type LossOptions,
  type LossSequence,
  type SequenceOutcome,
} from "./loss.ts";
export { createLiveOrder, createTaskOrder, type LiveShares, type TaskOrder } from "./task-order.ts";
export {
  DisagreementError,
  firstState,
  type LearnerState,
  PolicyLearner,
  type PolicyOptions,
  type PolicyParts,
  type PolicyStep,
  type PolicyTrainer,
  type PolicyUpdate,
  type StepGroup,
  type StepMetrics,
  type GroupRecord,
  groupRecords,
  stalenessOf,
  stepMetrics,
} from "./policy-learner.ts";
export {
  type Credit,
  creditChoices,
  type EarnedTurns,
  earnedTurns,
  returnsToGo,
  turnAdvantages,
} from "./turn-credit.ts";
export { createTrainer, type LossOutcome, type Trainer, type TrainerOptions } from "./trainer.ts";
export {
  loadProgress,
  loadTraining,
  type PassRateCurve,
  readFields,
  replaceFile,
  saveCheckpoint,
  type SavedTraining,
  saveTraining,
  type TrainingProgressSaved,
  writeProgress,
} from "./training-folder.ts";
export {
  type HeldOutTasks,
  type Learner,
  type TrainingEnd,
  type TrainingEvent,
  type TrainingProgress,
  type TrainingResult,
  runTraining,
  type TrainingRunOptions,
} from "./training-run.ts";
export { agreementLimits } from "../statistics/index.ts";
