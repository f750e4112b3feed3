// The contract of engines, proven by the SGLang engine in front of the protocol front over real sockets, whole and streamed.

import { describe, test } from "vitest";
import {
  createFunctionSampler,
  createSglangFront,
  engineConformance,
  RawText,
  SamplerRefusal,
  WireFaultError,
  type EngineBehaviour,
  type EngineHarness,
  type SampledAnswer,
  type Sampler,
  type SamplerOutput,
} from "../../testing/index.ts";
import { createSglangEngine } from "./sglang-engine.ts";
import type { EngineFailureCode } from "../../core/engine.ts";

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

function play(behaviour: EngineBehaviour, signal: AbortSignal): SampledAnswer | Promise<SampledAnswer> {
  switch (behaviour.type) {
    case "reply":
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

function playing(behaviours: readonly EngineBehaviour[]) {
  let calls = 0;
  const waiting: { readonly calls: number; readonly wake: () => void }[] = [];
  const sampler: Sampler = createFunctionSampler((_asked, { signal }) => {
    const behaviour = behaviours[calls++];
    for (const { calls: wanted, wake } of waiting) if (calls >= wanted) wake();
    return behaviour === undefined ? { ids: [4, 9] } : play(behaviour, signal);
  });
  const begun = (wanted: number): Promise<void> =>
    new Promise((resolve) => {
      if (calls >= wanted) resolve();
      else waiting.push({ calls: wanted, wake: resolve });
    });
  return { sampler, begun };
}

function harness(stream: boolean): EngineHarness {
  return {
    unscripted: null,
    uncontrolled: null,
    impossible: { unreachable: "a server that answers can be reached; sglang-engine.wire.test.ts closes one" },
    promptIds: [1, 2, 3],
    open: async (behaviours) => {
      const played = playing(behaviours);
      const front = createSglangFront({ sampler: played.sampler });
      const listener = await front.listen();
      const engine = createSglangEngine({ url: listener.url, stream });
      return { engine, control: engine, begun: played.begun, close: () => listener.close() };
    },
  };
}

describe.each([false, true])("createSglangEngine({ stream: %s }) keeps the contract of engines", (stream) => {
  test.for(engineConformance(harness(stream)))("$name", async (check, { skip }) => {
    if (check.skip !== null) skip(check.skip);
    await check.run();
  });
});
