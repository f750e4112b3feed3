// What the tests of this folder share: requests, canned servers, and the failure of a call.

import { inspect } from "node:util";
import { AttributedError } from "../../core/failure.ts";
import type { SampleRequest } from "../../core/engine.ts";
import { defaultSampling, type SamplingParams } from "../../core/sampling.ts";
import { TokenBuffer } from "../../core/token-buffer.ts";
import { createHandlerClient } from "../../http/index.ts";
import type { VllmFront } from "../../testing/index.ts";
import { createVllmEngine, type VllmEngine } from "./vllm-engine.ts";
import type { VllmEngineOptions } from "./vllm-options.ts";

export const apiKey = "sk-open-sesame";

export function request(
  options: {
    readonly prompt?: ArrayLike<number> | TokenBuffer;
    readonly sampling?: Partial<SamplingParams>;
    readonly stopTokenIds?: readonly number[];
    readonly requestId?: string;
    readonly routingKey?: string | null;
  } = {},
): SampleRequest {
  const prompt = options.prompt ?? [1, 2, 3];
  return {
    prompt: prompt instanceof TokenBuffer ? prompt : TokenBuffer.from(prompt),
    sampling: { ...defaultSampling, ...options.sampling },
    stopTokenIds: options.stopTokenIds ?? [9],
    requestId: options.requestId ?? "request",
    routingKey: options.routingKey ?? null,
  };
}

/** An engine whose server is a function; it asks for no endpoint unless told to. */
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

/** An engine in front of a front, without a socket. */
export function engineOn(front: Pick<VllmFront, "handle">, options: VllmEngineOptions = {}): VllmEngine {
  return engineOf((asked) => front.handle(asked), options);
}

/** What a call failed with. Throws when it did not, or when its text shows the API key. */
export async function failureOf(call: Promise<unknown>): Promise<AttributedError> {
  const error = await call.then(
    (result) => new Error(`The call did not fail: ${inspect(result)}`),
    (reason: unknown) => reason,
  );
  if (!(error instanceof AttributedError)) throw error;
  const shown = `${inspect(error, { depth: 20, showHidden: true })} ${JSON.stringify(error)} ${error.stack}`;
  if (shown.includes(apiKey)) throw new Error(`The failure shows the API key: ${shown}`);
  return error;
}
