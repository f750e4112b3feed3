// The HTTP pool: requests, streams of server-sent events, attributed faults, addresses without
// secrets; and the common base of the HTTP engines: a server as a peer, its refusals and replies,
// bodies that grow with a prompt.

export * from "./base-url.ts";
export * from "./engine-failure.ts";
export * from "./engine-server.ts";
export { readNamedEvents, type StreamEvent } from "./event-stream.ts";
export * from "./http-client.ts";
export { showTarget } from "./http-failure.ts";
export { type HttpFetch, httpFetch, type HttpFetchOptions } from "./http-fetch.ts";
export { createHttpPool } from "./http-pool.ts";
export * from "./redactor.ts";
export * from "./reply.ts";
export * from "./score-reply.ts";
export * from "./web-socket.ts";
export { acceptedEncodings } from "./content-encoding.ts";
export { BodyError, readBytes, readStream, unpackBody } from "./received-body.ts";
export { GrowingBodies, type RequestBody } from "./request-body.ts";
export {
  grammarConstraints,
  type NativeConstraint,
  nativeConstraint,
  withNativeConstraint,
} from "./native-constraint.ts";
export { type Listener, listen, probePaths } from "./listen.ts";
