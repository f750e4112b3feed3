// The one shared HTTP pool: requests, streams of server-sent events, attributed faults, addresses without secrets.

export { parseBaseUrl, showAddress, type BaseUrl, type BaseUrlOptions } from "./base-url.ts";
export { readEventStream, type EventStreamOptions, type ServerSentEvent } from "./event-stream.ts";
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
