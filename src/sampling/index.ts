// What engines that sample in this process have in common: how a request is read, and how a token is chosen. Not a public room.

export { adjustLogits, chooseToken, type ChosenToken, endingOf, type TokenCounts } from "./choose-token.ts";
export type { GenerationParams } from "./generation-params.ts";
export { engineFailure, type FailureMaker, type ModelLimits, readRequest } from "./read-request.ts";
