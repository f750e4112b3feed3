// Door of the learner: training of the embedded model. A trainer makes gradients and updates on threads; a policy learner
// plays episodes and learns from their rewards; cloning imitates samples that are there. Engines, environments and everything
// else that plays arrive as values.

export { CloningLearner, type ClonedSample, type CloningOptions } from "./cloning-learner.ts";
export { type CollapseLimits, CollapseWatch, defaultCollapseLimits } from "./collapse-watch.ts";
export type { PlayedGroup } from "./collect-groups.ts";
export { type AdvantageOptions, type Baseline, groupAdvantages } from "./group-advantages.ts";
export { cloningSequence, type LossSequence } from "./loss-sequence.ts";
export { agreementLimits, disagreement, type LogprobAgreement, logprobAgreement } from "./logprob-agreement.ts";
export {
  DisagreementError,
  firstState,
  type LearnerState,
  PolicyLearner,
  type PolicyOptions,
  type PolicyParts,
  type PolicyStep,
  type PolicyUpdate,
} from "./policy-learner.ts";
export { policySequences, type Sabotage, type WeightedSample } from "./policy-sequences.ts";
export { type StepMetrics, stepMetrics } from "./step-metrics.ts";
export { createTaskOrder, type TaskOrder } from "./task-order.ts";
export type { SequenceOutcome } from "./threads/thread-protocol.ts";
export type { LossOptions } from "./token-loss.ts";
export { createTrainer, type LossOutcome, type Trainer, type TrainerOptions } from "./trainer.ts";
