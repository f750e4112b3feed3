// The contract of engines, proven by the vLLM engine in front of the protocol front over real sockets: both endpoints, new
// servers and old, whole and streamed.

import { describe, test } from "vitest";
import { createBehaviourSampler, createVllmFront, engineConformance, type EngineHarness } from "../../testing/index.ts";
import { createVllmEngine } from "./vllm-engine.ts";
import type { VllmEngineOptions } from "./vllm-options.ts";

function harness(style: "new" | "old", options: VllmEngineOptions): EngineHarness {
  return {
    unscripted: null,
    uncontrolled: null,
    impossible: { unreachable: "a server that answers can be reached; vllm-engine.wire.test.ts closes one" },
    promptIds: [1, 2, 3],
    open: async (behaviours) => {
      // Replies of vLLM name no weights: the trainer that loads them tells the engine.
      const played = createBehaviourSampler(behaviours, { onWeights: (version) => engine.setWeightVersion(version) });
      const listener = await createVllmFront({ sampler: played.sampler, style }).listen();
      const engine = createVllmEngine({ ...options, url: listener.url });
      return { engine, control: engine, begun: played.begun, close: () => listener.close() };
    },
  };
}

describe.each([
  ["new", { endpoint: "auto", stream: false }],
  ["new", { endpoint: "auto", stream: true }],
  ["new", { endpoint: "completions", stream: false }],
  ["new", { endpoint: "completions", stream: true }],
  ["old", { endpoint: "auto", stream: false }],
  ["old", { endpoint: "auto", stream: true }],
] as const)("createVllmEngine() with a server of %s style and %j keeps the contract of engines", (style, options) => {
  test.for(engineConformance(harness(style, options)))("$name", async (check, { skip }) => {
    if (check.skip !== null) skip(check.skip);
    await check.run();
  });
});
