// The engine for GGUF files: CPU of a sampled token against llama.cpp's own sampler, what recorded
// logprobs differ from whole rows by, and prompt tokens computed against the ideal, in which every
// new token of a group is computed once. node-llama-cpp must be installed in the current folder or
// above it; the model is a file of a real one, because the size of its vocabulary decides.
// Run: npm run bench -- llama-cpp <model.gguf> [rounds]

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { rollout } from "../dist/index.js";
import { TokenBuffer } from "../dist/core/index.js";
import { createLlamaCppEngine } from "../dist/engines/llama-cpp/index.js";
import { loadLlamaLibrary } from "../dist/engines/llama-cpp/llama-library.js";
import { exportGguf } from "../dist/learner/model/index.js";
import { loadModelFolder } from "../dist/tokenizers/index.js";
import { cpuOf, machine, median, spread } from "./lib/measure.mjs";

const [modelPath, rounds = "5"] = process.argv.slice(2);
if (modelPath === undefined) {
  process.stderr.write("Cannot run the benchmark: no model is named; give the path of a GGUF file.\n");
  process.exit(2);
}
const library = await loadLlamaLibrary();
const tokensEach = 48;

console.log(machine());
await measureTokens();
await measurePrompts();

/** Both sample after the same prompt, one after the other in each round, with one thread. */
async function measureTokens() {
  const { tokenizer } = await loadModelFolder(modelPath);
  const ask = "Tell a story about a bookshop, and then list its books as JSON.";
  const prompt = tokenizer.encode(`<|im_start|>user\n${ask}<|im_end|>\n<|im_start|>assistant\n`);
  const engine = await createLlamaCppEngine({ modelPath, library, gpu: false, threads: 1, sequences: 1, contextTokens: 1024 }); // prettier-ignore
  const llama = await library.getLlama({ gpu: false, build: "never", logLevel: "error", maxThreads: 1 });
  const model = await llama.loadModel({ modelPath });
  const context = await model.createContext({ contextSize: 1024, sequences: 1, threads: 1 });
  const sequence = context.getSequence();
  const request = (seed, length) => ({
    prompt: TokenBuffer.from(prompt),
    sampling: { temperature: 1, topP: 1, topK: -1, minP: 0, maxNewTokens: length, repetitionPenalty: 1, seed, extra: {} }, // prettier-ignore
    stopTokenIds: [],
    requestId: `r${seed}`,
    routingKey: "bench",
  });
  /** llama.cpp's sampler with the library's defaults. */
  const theirs = async (length) => {
    await sequence.adaptStateToTokens([...prompt].slice(0, -1), false);
    let count = 0;
    const sampled = sequence.evaluate([...prompt].slice(sequence.nextTokenIndex), { temperature: 1, seed: 1 });
    for await (const _ of sampled) if (++count === length) break;
  };
  const [own, other] = [[], []];
  const differences = [];
  await engine.sample(request(0, 4));
  await theirs(4);
  for (let round = 1; round <= Number(rounds); round++) {
    const ours = await cpuOf(() => engine.sample(request(round, tokensEach)));
    own.push(ours.cpuUs / 1000 / tokensEach);
    other.push((await cpuOf(() => theirs(tokensEach))).cpuUs / 1000 / tokensEach);
    const { sampledTokens, logprobs } = ours.result;
    const exact = await wholeRows(sequence, prompt, sampledTokens);
    differences.push(...exact.map((logprob, at) => Math.abs(logprob - logprobs[at])));
  }
  const ratios = own.map((ms, at) => ms / other[at]);
  console.log(
    `\n${engine.limits.vocabularySize} tokens in the vocabulary, one thread, ${rounds} interleaved rounds of ${tokensEach} tokens`,
  );
  console.log(`  CPU ms a token         ${spread(own)}, llama.cpp's own sampler ${spread(other)}`);
  console.log(`  ratio                  ${spread(ratios, 2)}, at most 1.3 ${median(ratios) <= 1.3 ? "met" : "missed"}`);
  const largest = Math.max(...differences);
  console.log(`  logprobs               differ from whole rows by at most ${largest.toExponential(1)} (${differences.length} tokens), at most 1e-4 ${largest <= 1e-4 ? "met" : "missed"}`); // prettier-ignore
  await engine.close();
  await llama.dispose();
}

/** Logprobs of these tokens from the rows that the library's documented calls return. */
async function wholeRows(sequence, prompt, sampled) {
  await sequence.clearHistory();
  const found = [];
  let pending = [...prompt];
  for (const token of sampled) {
    const rows = await sequence.controlledEvaluate([
      ...pending.slice(0, -1),
      [pending.at(-1), { generateNext: { logits: true } }],
    ]);
    const { logits } = rows.at(-1).next;
    let most = -Infinity;
    for (const logit of logits.values()) most = Math.max(most, logit);
    let sum = 0;
    for (const logit of logits.values()) sum += Math.exp(logit - most);
    found.push(logits.get(token) - most - Math.log(sum));
    pending = [token];
  }
  return found;
}

/** A small model of ours plays groups of 8: what is counted does not depend on the model. */
async function measurePrompts() {
  const folder = await mkdtemp(join(tmpdir(), "bench-llama-"));
  try {
    const path = join(folder, "nano.gguf");
    await exportGguf(join(import.meta.dirname, "..", "models", "bookshop-nano"), path);
    console.log("\ngroups of 8 in the bookshop, 8 sequences: prompt tokens computed");
    for (const concurrency of [1, 2, 3, 8, 64]) {
      const turns = [];
      const engine = await createLlamaCppEngine({ modelPath: path, library, gpu: false, threads: 1, sequences: 8, contextTokens: 2048 }); // prettier-ignore
      const counted = {
        name: engine.name,
        mostEpisodes: engine.mostEpisodes,
        endEpisode: (key) => engine.endEpisode(key),
        sample: async (given, options) => {
          const prompt = given.prompt.view().slice();
          const result = await engine.sample(given, options);
          turns.push({ prompt, sampled: result.sampledTokens, usage: result.usage });
          return result;
        },
        close: () => engine.close(),
      };
      await rollout({ env: "bookshop", engine: counted, model: "bookshop-nano", tasks: "0-3", groupSize: 8, concurrency, maxTurns: 6, maxNewTokens: 48, out: join(folder, `run-${concurrency}`) }); // prettier-ignore
      await engine.close();
      const computed = turns.reduce((sum, { usage }) => sum + usage.promptTokens - usage.cachedTokens, 0);
      const all = turns.reduce((sum, { usage }) => sum + usage.promptTokens, 0);
      const ideal = idealTokens(turns);
      const ratio = computed / ideal;
      console.log(`  --concurrency ${String(concurrency).padEnd(2)}  ${computed} of ${all}, ideal ${ideal}, ratio ${ratio.toFixed(3)}, at most 1.1 ${ratio <= 1.1 ? "met" : "missed"}`); // prettier-ignore
    }
  } finally {
    await rm(folder, { recursive: true });
  }
}

/**
 * Number of distinct beginnings of all prompts, without those that end in a token that was computed
 * when it was sampled. The last token of an answer was not.
 */
function idealTokens(turns) {
  const root = new Map();
  const walk = (tokens) => {
    const path = [];
    let node = root;
    for (const token of tokens) {
      if (!node.has(token)) node.set(token, new Map());
      node = node.get(token);
      path.push(node);
    }
    return path;
  };
  const [needed, decoded] = [new Set(), new Set()];
  for (const { prompt, sampled } of turns) {
    const path = walk([...prompt, ...sampled.subarray(0, Math.max(0, sampled.length - 1))]);
    path.forEach((node, at) => (at < prompt.length ? needed : decoded).add(node));
  }
  // A token that one episode sampled and another was given is computed once, too.
  return [...needed].filter((node) => !decoded.has(node)).length;
}
