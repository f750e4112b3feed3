// Public entry of remote environments: the contract of a service, and the environment source that
// is made from one. Each protocol is a subfolder with an entry of its own.

export { blockText } from "./read-message.ts";
export * from "./read-message.ts";
export { faultOfHttp, RemoteHttp, type RemoteRequest, type RemoteRequestOptions } from "./remote-http.ts";
export {
  type RemoteCallOptions,
  remoteFault,
  type RemoteFaultCode,
  remoteFaultCodes,
  type RemoteService,
  type RemoteSession,
  type RewardRule,
  rewardRules,
  StepRewards,
  type UnrewardedRule,
  unrewardedRules,
  WorldRewards,
} from "./remote-service.ts";
export { type OwnTasks, readOwnTasks } from "./own-tasks.ts";
export {
  defaultRemoteLimits,
  type RemoteLimits,
  type RemoteSource,
  remoteSource,
  type SessionCounts,
} from "./remote-source.ts";
