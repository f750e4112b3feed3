// The rollout service: episodes and groups on request, over HTTP.

export {
  createRolloutService,
  type RolloutService,
  type RolloutServiceOptions,
  type ServiceAddress,
} from "./rollout-service.ts";
export { type LoggedRequest, memoryRequestLog, openRequestLog, type RequestLog } from "./request-log.ts";
export {
  defaultServiceLimits,
  type ExportedEpisode,
  type EpisodeArchive,
  type PolicyRequest,
  type RowFormat,
  type ServiceLimits,
  type ServiceParts,
} from "./service-options.ts";
export { gatedEngine, TurnGate } from "./turn-gate.ts";
