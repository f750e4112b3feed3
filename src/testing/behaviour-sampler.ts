// A sampler that treats its calls as the engine conformance suite tells it: what stands behind a protocol front while the
// engine in front of it is examined.

import type { EngineFailureCode } from "../core/engine.ts";
import type { EngineBehaviour } from "./engine-conformance.ts";
import { createFunctionSampler, type SampledAnswer } from "./front/function-sampler.ts";
import { SamplerRefusal, type Sampler, type SamplerOutput } from "./front/sampler.ts";
import { RawText, WireFaultError } from "./front/wire-fault.ts";

export type BehaviourSampler = {
  readonly sampler: Sampler;
  /** Resolves when this many calls have begun. */
  readonly begun: (calls: number) => Promise<void>;
};

export type BehaviourSamplerOptions = {
  /** Called as the weights of a reply are "loaded", for protocols whose replies do not name them. */
  readonly onWeights?: (weightVersion: string) => void;
};

/** Plays the behaviours in order; calls beyond get two tokens. */
export function createBehaviourSampler(
  behaviours: readonly EngineBehaviour[],
  options: BehaviourSamplerOptions = {},
): BehaviourSampler {
  let calls = 0;
  const waiting: { readonly calls: number; readonly wake: () => void }[] = [];
  const sampler = createFunctionSampler((_asked, { signal }) => {
    const behaviour = behaviours[calls++];
    for (const { calls: wanted, wake } of waiting) if (calls >= wanted) wake();
    return behaviour === undefined ? { ids: [4, 9] } : play(behaviour, { ...options, signal });
  });
  const begun = (wanted: number): Promise<void> =>
    new Promise((resolve) => {
      if (calls >= wanted) resolve();
      else waiting.push({ calls: wanted, wake: resolve });
    });
  return { sampler, begun };
}

const output: SamplerOutput = { ids: [9], logprobs: [-1], finish: "end", cachedTokens: 0, weightVersion: null };

function throwing(code: EngineFailureCode): never {
  const answer = (status: number): WireFaultError =>
    new WireFaultError({ type: "answer", status, headers: {}, text: "told so" });
  switch (code) {
    case "context-length":
      throw new SamplerRefusal(400, "This is more than the context length.");
    case "bad-request":
      throw new SamplerRefusal(400, "told so");
    case "overloaded":
      throw new SamplerRefusal(503, "told so");
    case "server-error":
      throw answer(500);
    case "unauthorized":
      throw answer(401);
    case "timeout":
      throw answer(504);
    case "connection-lost":
      throw new WireFaultError({ type: "drop", output, share: 0.5 });
    case "bad-reply":
      throw new WireFaultError({ type: "edit", output, edit: () => new RawText("<html>") });
    case "unreachable":
    case "cancelled":
      throw new Error(`Code "${code}" is not the server's to give.`);
    default:
      return code satisfies never;
  }
}

function play(
  behaviour: EngineBehaviour,
  options: BehaviourSamplerOptions & { readonly signal: AbortSignal },
): SampledAnswer | Promise<SampledAnswer> {
  const { signal, onWeights } = options;
  switch (behaviour.type) {
    case "reply":
      onWeights?.(behaviour.weightVersion);
      return { ids: behaviour.tokens, weightVersion: behaviour.weightVersion };
    case "abort":
      return { ids: behaviour.tokens, finish: "abort" };
    case "failure":
      return throwing(behaviour.code);
    case "hang":
      return new Promise((resolve) => {
        signal.addEventListener("abort", () => resolve({ ids: [], finish: "abort" }), { once: true });
      });
    default:
      return behaviour satisfies never;
  }
}
