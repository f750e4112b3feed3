// Engines connected to functions and to the protocol front, without a socket.

import { createHandlerClient } from "../../http/handler-client.test-helper.ts";
import { apiKey } from "../../http/engine-calls.test-helper.ts";
import type { VllmFront } from "../../testing/index.ts";
import { createVllmEngine, type VllmEngine, type VllmEngineOptions } from "./vllm-engine.ts";

/** An engine whose server is a function; it does not detect an endpoint unless requested. */
export function engineOf(
  handler: (asked: Request) => Response | Promise<Response>,
  options: VllmEngineOptions = {},
): VllmEngine {
  const http = createHandlerClient(handler, {
    boundary: "engine",
    ...(options.clock === undefined ? {} : { clock: options.clock }),
  });
  return createVllmEngine({ url: "http://server", apiKey, endpoint: "generate", ...options, http });
}

/** An engine connected to a protocol front, without a socket. */
export function engineOn(front: Pick<VllmFront, "handle">, options: VllmEngineOptions = {}): VllmEngine {
  return engineOf((asked) => front.handle(asked), options);
}
