// A process that rolls out into a folder, or goes on with the run in it, and may kill itself in the middle of a write. Plays
// the bookshop's expert, a function of prompt and seed, so that every process would have sampled the same.
// Run by tests/chaos.test.ts: node chaos-child.mjs <folder> <plan> <seed> <tasks> <kill at write, 0: never> <share of it that is
// written>. The plan "all" plays each task once; "filtered" plays groups until three are kept that teach something.

import { existsSync } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";

import { bookshopSource, expertAction } from "../../dist/environments/bookshop/index.js";
// Rooms with libraries that are not needed here are entered by the side: this process is started often.
import { createToolCalling } from "../../dist/agents/tool-calling.js";
import { createQwenRenderer } from "../../dist/renderers/index.js";
import { dropZeroSignal, resumableRunner, runRollout, episodeRunner } from "../../dist/rollout/index.js";
import { createFileRunStore, resumeFileRunStore } from "../../dist/store/index.js";
import { createReadableTokenizer } from "../../dist/tokenizers/readable-tokenizer.js";
import { agendaUser } from "../../dist/users/agenda.js";

const [folder, plan, ...numbers] = process.argv.slice(2);
const [seed, tasks, killAt, share] = numbers.map(Number);

const tokenizer = createReadableTokenizer();
const end = tokenizer.encode("<|im_end|>");
const engine = {
  name: "expert",
  sample: async ({ prompt, sampling }) => {
    const { text, probability } = expertAction(tokenizer.decode(prompt.view()), { noise: 0.2, seed: sampling.seed });
    const sampledTokens = Uint32Array.from([...tokenizer.encode(text), ...end]);
    return {
      sampledTokens,
      logprobs: Float32Array.from(sampledTokens, (_, index) => (index === 0 ? Math.log(probability) : 0)),
      finish: { reason: "stop", matched: end[0], raw: null },
      weightSpans: [{ tokenCount: sampledTokens.length, dispatch: null, reply: null }],
      usage: { promptTokens: prompt.length, completionTokens: sampledTokens.length, cachedTokens: null },
    };
  },
  close: async () => {},
};

/** Every write of the store passes here. */
let writes = 0;
const probe = await open(process.argv[1], "r");
const prototype = Object.getPrototypeOf(probe);
await probe.close();
const { write } = prototype;
prototype.write = async function killing(bytes, ...rest) {
  if (++writes !== killAt) return write.call(this, bytes, ...rest);
  await write.call(this, bytes.subarray(0, Math.floor(bytes.length * share)));
  process.kill(process.pid, "SIGKILL");
  return new Promise(() => {});
};

const goesOn = existsSync(join(folder, "run.json"));
const options = { fsync: "never", segmentBytes: 100_000 };
const earlier = goesOn ? await resumeFileRunStore(folder, options) : null;
const store = earlier?.store ?? createFileRunStore(folder, options);
await store.begin(new Map([["seed", seed]]));
const report = {
  ended: earlier?.ended.size ?? 0,
  underWay: earlier?.inFlight.size ?? 0,
  torn: earlier?.torn.length ?? 0,
};
process.stdout.write(`${JSON.stringify(report)}\n`);

const environment = bookshopSource();
const parts = {
  environment,
  engine,
  user: agendaUser(),
  strategy: createToolCalling(),
  renderer: createQwenRenderer({ tokenizer, family: "qwen2.5-instruct" }),
};
await runRollout(
  {
    taskset: environment.taskset("train"),
    taskIndexes: Array.from({ length: tasks }, (_, index) => index),
    groupSize: 2,
    seed,
  },
  {
    runEpisode: resumableRunner(episodeRunner(parts, { seedTurns: true }), store),
    store,
    ...(earlier === null ? {} : { decided: earlier.decided }),
    exportSamples: ({ result }, { index }) =>
      result.samples.map(({ id, tokens, lossMask, reward }) =>
        JSON.stringify({ id, index, tokens: [...tokens], lossMask: [...lossMask], reward }),
      ),
  },
  plan === "all"
    ? { concurrency: 8 }
    : { concurrency: 8, groups: { filters: [dropZeroSignal()] }, quota: { target: 3, oversample: 2 } },
);
await store.close(new Map([["writes", writes]]));
