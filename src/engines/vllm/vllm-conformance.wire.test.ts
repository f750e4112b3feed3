// The contract of engines, tested with the vLLM engine in front of the protocol front over real
// sockets: both endpoints, new and old servers, whole and streamed.

import { describe, test } from "vitest";
import {
  createBehaviourSampler,
  createVllmFront,
  engineConformance,
  type EngineHarness,
  type VllmVersion,
} from "../../testing/index.ts";
import { createVllmEngine, type VllmEngineOptions } from "./vllm-engine.ts";

function harness(version: VllmVersion, options: VllmEngineOptions): EngineHarness {
  return {
    unscripted: null,
    uncontrolled: null,
    impossible: { unreachable: "a server that answers can be reached; vllm-engine.wire.test.ts closes one" },
    promptIds: [1, 2, 3],
    streams: true,
    open: async (behaviours) => {
      // Replies of older servers have no weight version: the trainer that loads the weights reports
      // it to the engine.
      const played = createBehaviourSampler(behaviours, { onWeights: (told) => engine.setWeightVersion(told) });
      const listener = await createVllmFront({ sampler: played.sampler, version }).listen();
      const engine = createVllmEngine({ ...options, url: listener.url });
      return { engine, control: engine, begun: played.begun, close: () => listener.close() };
    },
  };
}

describe.each([
  ["0.32.0", { endpoint: "auto", stream: false }],
  ["0.32.0", { endpoint: "auto", stream: true }],
  ["0.32.0", { endpoint: "completions", stream: false }],
  ["0.32.0", { endpoint: "completions", stream: true }],
  ["0.12.0", { endpoint: "auto", stream: false }],
  ["0.12.0", { endpoint: "auto", stream: true }],
  ["0.10.2", { endpoint: "auto", stream: false }],
  ["0.10.2", { endpoint: "auto", stream: true }],
] as const)(
  "createVllmEngine() with a server of version %s and %j keeps the contract of engines",
  (version, options) => {
    test.for(engineConformance(harness(version, options)))("$name", async (check, { skip }) => {
      if (check.skip !== null) skip(check.skip);
      await check.run();
    });
  },
);
