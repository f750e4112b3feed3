// The examination of a server, with the SGLang and vLLM engines connected to the protocol fronts: a
// model that takes its time, one that is too fast, and one that ignores its parameters.

import { describe, expect, test } from "vitest";
import { createSglangEngine } from "../engines/sglang/index.ts";
import { createVllmEngine } from "../engines/vllm/index.ts";
import { examineEngine } from "./examine-engine.ts";
import { createSglangFront, createVllmFront, type Sampler } from "./index.ts";

/** A sampler whose long replies stop in the middle until they are aborted. */
const slow: Sampler = {
  sample: async ({ params }, { signal, onTokens }) => {
    const isEndless = params.maxNewTokens > 100;
    const ids = Array.from({ length: isEndless ? 5 : params.maxNewTokens }, () => 7);
    const logprobs = ids.map(() => -0.5);
    onTokens(ids, logprobs);
    if (isEndless && !signal.aborted) {
      await new Promise<void>((resolve) => {
        signal.addEventListener("abort", () => resolve(), { once: true });
      });
    }
    return { ids, logprobs, finish: signal.aborted ? "abort" : "end", cachedTokens: 0, weightVersion: null };
  },
};

const quick: Sampler = {
  sample: async ({ params }) => {
    const ids = Array.from({ length: params.maxNewTokens }, () => 7);
    return { ids, logprobs: ids.map(() => -0.5), finish: "end", cachedTokens: 0, weightVersion: null };
  },
};

async function examine(product: "sglang" | "vllm", sampler: Sampler) {
  const options = { sampler, contextLength: 2048, vocabularySize: 100 };
  const front = product === "sglang" ? createSglangFront(options) : createVllmFront(options);
  const listener = await front.listen();
  const { url } = listener;
  const outcomes = await examineEngine({
    open: () => (product === "sglang" ? createSglangEngine({ url }) : createVllmEngine({ url, onWarning: () => {} })),
    contextTokens: 2048,
    unpausable: null,
    ...(product === "vllm" ? { pauseModes: ["abort", "in-place"] as const } : {}),
    settleMs: 100,
  });
  await listener.close();
  return outcomes;
}

describe.each(["sglang", "vllm"] as const)("examineEngine() of %s", (product) => {
  test("puts every check to a model that needs no script, and says why the others do not apply", async () => {
    const outcomes = await examine(product, slow);
    expect(outcomes.filter(({ result }) => result === "failed")).toEqual([]);
    const applied = outcomes.filter(({ result }) => result === "ok").map(({ name }) => name);
    expect(applied).toHaveLength(product === "sglang" ? 16 : 15);
    expect(applied).toContain("abort() ends the request of that id and no other");
    expect(applied).toContain("pause() in mode abort ends what runs, and continue() lets others begin");
    expect(applied).toContain("code context-length reaches the caller");
    expect(outcomes.filter(({ reason, result }) => (result === "ok") !== (reason === null))).toEqual([]);
  });

  test("says of a reply that was over before it could be ended that this has shown nothing", async () => {
    const outcomes = await examine(product, quick);
    const early = outcomes.filter(({ reason }) => reason?.includes("came to its end before"));
    expect(early.map(({ name }) => name)).toContain("abort() ends the request of that id and no other");
  });
});
