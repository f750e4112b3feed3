// Door of the learner: training of the embedded model. Gradients and updates on threads; which sequences and which loss is
// the caller's.

export { cloningSequence, type LossSequence } from "./loss-sequence.ts";
export type { SequenceOutcome } from "./threads/thread-protocol.ts";
export type { LossOptions } from "./token-loss.ts";
export { createTrainer, type LossOutcome, type Trainer, type TrainerOptions } from "./trainer.ts";
