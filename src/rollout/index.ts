// Public entry: the loop of one process, the workers that share a run, and the producer that serves a trainer.

export * from "./loop.ts";
export { keepExperts, type RoutedExpertsSink } from "./episode/expert-rows.ts";
export { groupRanking } from "./rank-group.ts";
export { Coordinator, type CoordinatorOptions } from "./workers/coordinator.ts";
export { runWorker, type WorkerOptions, type WorkerRun } from "./workers/run-worker.ts";
export {
  type BegunGroup,
  type EarlierProduction,
  type ProducedGroup,
  type ProducerOptions,
  type ProducerParts,
  type ProducerPlan,
  type ProducerState,
  type ProducerStatus,
  type TakenGroup,
  type TakeOptions,
} from "./producer/producer-options.ts";
export { createRolloutProducer, type RolloutProducer } from "./producer/rollout-producer.ts";
export { groupCapacity, WeightHistory } from "./producer/staleness.ts";
