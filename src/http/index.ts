// The one HTTP pool: requests, streams of server-sent events, attributed faults, addresses without secrets; and what engines
// behind HTTP have in common: a server as a partner, its refusals and replies, bodies that grow with a prompt.

export {
  createRedactor,
  parseBaseUrl,
  resolveAddress,
  showAddress,
  type BaseUrl,
  type EngineAddress,
} from "./base-url.ts";
export {
  badReply,
  codeOf,
  engineFailure,
  errorInside,
  parseJson,
  refusalFailure,
  type FailureContext,
  type ServerDialect,
} from "./engine-failure.ts";
export {
  isGivenUp,
  isMissing,
  readServerFacts,
  ServerEngine,
  writeBody,
  type CallOptions,
  type EngineServer,
  type ServerEngineOptions,
  type ServerFacts,
} from "./engine-server.ts";
export {
  headerValue,
  type HttpCallOptions,
  type HttpClient,
  type HttpHeaders,
  type HttpRequest,
  type HttpResponse,
} from "./http-client.ts";
export { showTarget } from "./http-failure.ts";
export { createHttpPool } from "./http-pool.ts";
export {
  asFields,
  ignoresStopTokens,
  isTokenId,
  joinTokens,
  noTokens,
  rawText,
  readCount,
  readFinishReason,
  readLogprob,
  readSampledReply,
  readTokenIds,
  readWeightVersion,
  StreamFold,
  sumLoads,
  type ExpectedReply,
  type Fields,
  type LoggedTokens,
} from "./reply.ts";
export { GrowingBodies, type RequestBody } from "./request-body.ts";
