// Door of the graders: what results mean. Statistics over trials, and whose mistake a failure was. No grader here computes
// the reward of an environment, and none changes one.

export { differenceInterval, type Interval, type IntervalOptions, meanInterval, rateInterval } from "./interval.ts";
export { type Conversation, conversationOf, type ConversationStep } from "./conversation.ts";
export { attributeFault, type FailedEpisode, type Fault, type FaultAttribution, faults } from "./fault-attribution.ts";
export { applyFaultPolicy, type FaultPolicy, faultPolicies, isForeignFault } from "./fault-policy.ts";
export { judgeFault, type JudgeModel, type JudgeOptions } from "./model-judge.ts";
export { commonTrials, isSuccess, passAtK, passHatK, type TaskTally } from "./pass-hat-k.ts";
export { type KnownFact, type TaskFacts } from "./task-facts.ts";
