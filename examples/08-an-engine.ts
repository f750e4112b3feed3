// An engine of your own: token ids in, sampled ids and logprobs out. This one answers like a shop assistant who never learnt a
// tool; put your server's protocol in its place, and `examineEngine` of trainable-agents/testing beside your tests.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Engine, rollout } from "trainable-agents";
import { createReadableTokenizer } from "trainable-agents/tokenizers";

const tokenizer = createReadableTokenizer();
const replies = ["Good morning! Which order is it about?", "I am sorry, that I cannot do."];

function createPoliteEngine(): Engine {
  let turn = 0;
  return {
    name: "polite",
    sample: async ({ prompt, stopTokenIds }) => {
      const sampledTokens = Uint32Array.from([...tokenizer.encode(replies[turn++ % 2] ?? ""), stopTokenIds[0] ?? 0]);
      const count = sampledTokens.length;
      return {
        sampledTokens,
        logprobs: new Float32Array(count),
        finish: { reason: "stop", matched: stopTokenIds[0] ?? null, raw: null },
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
