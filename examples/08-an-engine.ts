// An engine of your own: token ids in, sampled ids and logprobs out. This one answers like a shop
// assistant who never learnt a tool; put your server's protocol in its place. The conformance suite
// at the end belongs in your tests.
// Run: npx trainable-agents example 08

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AttributedError, type Engine, rollout } from "trainable-agents";
import { engineConformance } from "trainable-agents/testing";
import { createReadableTokenizer } from "trainable-agents/tokenizers";

const tokenizer = createReadableTokenizer();
const replies = ["Good morning! Which order is it about?", "I am sorry, that I cannot do."];

function createPoliteEngine(): Engine {
  let turn = 0;
  return {
    name: "polite",
    // A failure is an `AttributedError` with a code; the loop decides from `retryable` whether to
    // retry.
    sample: async ({ prompt, sampling, stopTokenIds }, { signal } = {}) => {
      if (signal?.aborted === true) {
        const message = "Cannot sample: the caller cancelled it.";
        throw new AttributedError({ boundary: "engine", code: "cancelled", message, retryable: false, cause: null });
      }
      const stopId = stopTokenIds[0] ?? 0;
      const reply = Uint32Array.from([...tokenizer.encode(replies[turn++ % 2] ?? ""), stopId]);
      const sampledTokens = reply.slice(0, sampling.maxNewTokens ?? reply.length);
      const count = sampledTokens.length;
      return {
        sampledTokens,
        logprobs: new Float32Array(count),
        finish:
          count === reply.length
            ? { reason: "stop", matched: stopId, raw: null }
            : { reason: "length", matched: null, raw: null },
        weightSpans: [{ tokenCount: count, dispatch: null, reply: null }],
        usage: { promptTokens: prompt.length, completionTokens: count, cachedTokens: null },
      };
    },
    close: async () => {},
  };
}

const cwd = await mkdtemp(join(tmpdir(), "example-"));
const engine = createPoliteEngine();
const { totals } = await rollout({
  env: "bookshop",
  engine,
  model: "readable",
  tasks: "0-1",
  maxTurns: 6,
  cwd,
  out: "run",
});
console.log(`${totals.episodesFinished} episodes, ${totals.turns} turns, mean reward ${totals.meanReward}`);
await engine.close();
await rm(cwd, { recursive: true });

// The contract, check by check, without a test runner. A scriptable engine (`unscripted: null`)
// proves all of it; a check that does not apply gives the reason in `skip`.
const checks = engineConformance({
  unscripted: "it has two replies",
  uncontrolled: "it cannot be paused",
  impossible: {},
  promptIds: [1, 2, 3],
  open: async () => ({
    engine: createPoliteEngine(),
    control: null,
    begun: async () => {},
    close: async () => {},
  }),
});
for (const check of checks) {
  if (check.skip === null) await check.run();
}
console.log(`${checks.filter(({ skip }) => skip === null).length} of ${checks.length} checks apply and pass`);
