// Helpers of the tests of HTTP engines: requests, samplers, and the failure of a call.

import { inspect } from "node:util";
import { AttributedError } from "../core/failure.ts";
import { type SampleRequest, defaultSampling, type SamplingParams } from "../core/engine.ts";
import { TokenBuffer } from "../core/token-buffer.ts";
import { createFunctionSampler, type Sampler } from "../testing/index.ts";

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

/** The failure of a call. Throws if the call succeeded, or if the error text shows the API key. */
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

/** Repeats the prompt, then ends. */
export const echo = createFunctionSampler(({ promptIds }) => ({ ids: [...promptIds, 9], cachedTokens: 1 }));

/** Samples one token and then nothing more until it is aborted. */
export function stuckSampler(): {
  readonly sampler: Sampler;
  readonly begun: Promise<void>;
  /** Resolves when a call has been aborted. */
  readonly left: Promise<void>;
} {
  let begin!: () => void;
  let leave!: () => void;
  const begun = new Promise<void>((resolve) => {
    begin = resolve;
  });
  const left = new Promise<void>((resolve) => {
    leave = resolve;
  });
  const sampler: Sampler = {
    sample: (_asked, { signal, onTokens }) =>
      new Promise((resolve) => {
        onTokens([5], [-0.5]);
        begin();
        const output = { ids: [5], logprobs: [-0.5], finish: "abort", cachedTokens: 0, weightVersion: null } as const;
        const onAbort = (): void => {
          leave();
          resolve(output);
        };
        signal.addEventListener("abort", onAbort, { once: true });
      }),
  };
  return { sampler, begun, left };
}

/** Resolves when no call is being sampled. */
export async function idle(front: { load(): { readonly running: number } }): Promise<void> {
  while (front.load().running > 0) {
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
  }
}
