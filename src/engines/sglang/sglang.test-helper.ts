// Engines connected to functions and to the protocol front, without a socket.

import { createHandlerClient } from "../../http/handler-client.test-helper.ts";
import { apiKey } from "../../http/engine-calls.test-helper.ts";
import type { SglangFront } from "../../testing/index.ts";
import { createSglangEngine, type SglangEngine, type SglangEngineOptions } from "./sglang-engine.ts";

/** An engine whose server is a function. */
export function engineOf(
  handler: (asked: Request) => Response | Promise<Response>,
  options: SglangEngineOptions = {},
): SglangEngine {
  const http = createHandlerClient(handler, {
    boundary: "engine",
    ...(options.clock === undefined ? {} : { clock: options.clock }),
  });
  return createSglangEngine({ url: "http://server", apiKey, ...options, http });
}

/** An engine connected to a protocol front, without a socket. */
export function engineOn(front: Pick<SglangFront, "handle">, options: SglangEngineOptions = {}): SglangEngine {
  return engineOf((asked) => front.handle(asked), options);
}
