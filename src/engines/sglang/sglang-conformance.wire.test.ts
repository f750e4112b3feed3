// The contract of engines, tested with the SGLang engine in front of the protocol front over real
// sockets, whole and streamed.

import { describe, test } from "vitest";
import {
  createBehaviourSampler,
  createSglangFront,
  engineConformance,
  type EngineHarness,
} from "../../testing/index.ts";
import { createSglangEngine } from "./sglang-engine.ts";

function harness(stream: boolean): EngineHarness {
  return {
    unscripted: null,
    uncontrolled: null,
    impossible: { unreachable: "a server that answers can be reached; sglang-engine.wire.test.ts closes one" },
    promptIds: [1, 2, 3],
    streams: true,
    open: async (behaviours) => {
      const played = createBehaviourSampler(behaviours);
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
