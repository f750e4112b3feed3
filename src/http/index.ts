// The one shared HTTP pool: requests, streams of server-sent events, attributed faults, addresses without secrets; and what
// engines behind HTTP have in common: a server as a partner, its refusals, bodies that grow with a prompt.

export { parseBaseUrl, showAddress, type BaseUrl, type BaseUrlOptions } from "./base-url.ts";
export { requireDuration, resolveAddress, type EngineAddress } from "./engine-address.ts";
export {
  badReply,
  engineFailure,
  parseJson,
  refusalFailure,
  type FailureContext,
  type Refusal,
  type ServerDialect,
} from "./engine-failure.ts";
export { EngineServer, type EngineServerOptions } from "./engine-server.ts";
export { readEventStream, type EventStreamOptions, type ServerSentEvent } from "./event-stream.ts";
export { GrowingBodies, type LentBody } from "./growing-body.ts";
export { headerText } from "./header-text.ts";
export {
  headerValue,
  type HttpCallOptions,
  type HttpClient,
  type HttpFailureCode,
  type HttpHeaders,
  type HttpRequest,
  type HttpResponse,
  type HttpStream,
} from "./http-client.ts";
export { createHandlerClient, type HandlerClientOptions } from "./handler-client.ts";
export { showTarget } from "./http-failure.ts";
export { createHttpPool, type HttpPoolOptions } from "./http-pool.ts";
export { createRedactor } from "./redactor.ts";
export {
  asFields,
  isTokenId,
  rawText,
  readCount,
  readTokenIds,
  readWeightVersion,
  type Fields,
} from "./reply-fields.ts";
export { checkSampled, ignoresStopTokens, readWeightSpans, type SampledRules } from "./sampled-tokens.ts";
export { readServerFacts, type ServerFacts } from "./server-facts.ts";
export type { ServerEngineOptions } from "./server-engine-options.ts";
export { messageIn } from "./server-message.ts";
