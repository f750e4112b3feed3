// The engine for GGUF files: CPU of a sampled token against llama.cpp's own sampler, the difference
// of recorded logprobs from whole rows, and prompt tokens computed against the ideal: the beginnings
// that first prompts share once, and every further token of an episode once. node-llama-cpp must be installed in the current folder or
// above it; the model is a file of a real one, because the size of its vocabulary decides.
// Run: npm run bench -- llama-cpp <model.gguf> [rounds] [tokens|logprobs|prompts]

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

const [modelPath, rounds = "5", part = "all"] = process.argv.slice(2);
if (modelPath === undefined) {
  process.stderr.write("Cannot run the benchmark: no model is named; pass the path of a GGUF file.\n");
  process.exit(2);
}
const library = await loadLlamaLibrary();
const tokensEach = 48;

console.log(machine());
if (part === "all" || part === "tokens") await measureTokens();
if (part === "all" || part === "logprobs") await measureLogprobs();
if (part === "all" || part === "prompts") await measurePrompts();

/** Both sample after the same prompt, in turn within each round, with one thread. */
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
  await engine.sample(request(0, 4));
  await theirs(4);
  for (let round = 1; round <= Number(rounds); round++) {
    const ours = await cpuOf(() => engine.sample(request(round, tokensEach)));
    own.push(ours.cpuUs / 1000 / tokensEach);
    other.push((await cpuOf(() => theirs(tokensEach))).cpuUs / 1000 / tokensEach);
  }
  const ratios = own.map((ms, at) => ms / other[at]);
  console.log(
    `\n${engine.limits.vocabularySize} tokens in the vocabulary, one thread, ${rounds} interleaved rounds of ${tokensEach} tokens`,
  );
  console.log(`  CPU ms a token         ${spread(own)}, llama.cpp's own sampler ${spread(other)}`);
  console.log(`  ratio                  ${spread(ratios, 2)}, at most 1.3 ${median(ratios) <= 1.3 ? "met" : "missed"}`);
  await engine.close();
  await llama.dispose();
}

/** Compares with the whole row that each token was drawn from, read in the same batch. */
async function measureLogprobs() {
  const { tokenizer } = await loadModelFolder(modelPath);
  const prompt = tokenizer.encode("<|im_start|>user\nTell a story.<|im_end|>\n<|im_start|>assistant\n");
  console.log("\nlogprobs against the log-softmax of the whole row");
  for (const temperature of [1, 0.7, 1.3]) {
    const sums = [];
    const engine = await createLlamaCppEngine({ modelPath, library: watched(sums, temperature), gpu: false, threads: 1, sequences: 1, contextTokens: 1024 }); // prettier-ignore
    const sampling = { temperature, topP: 1, topK: -1, minP: 0, maxNewTokens: 100, repetitionPenalty: 1, seed: 3, extra: {} }; // prettier-ignore
    const request = { prompt: TokenBuffer.from(prompt), sampling, stopTokenIds: [], requestId: "r", routingKey: null };
    const { sampledTokens, logprobs } = await engine.sample(request);
    await engine.close();
    const differences = [...sampledTokens].map((token, at) => Math.abs(sums[at](token) - logprobs[at]));
    const largest = Math.max(...differences);
    console.log(`  temperature ${temperature}  at most ${largest.toExponential(1)} (${differences.length} tokens), at most 1e-4 ${largest <= 1e-4 ? "met" : "missed"}`); // prettier-ignore
  }
}

/**
 * The library, whose context also reads the whole row once the engine has read all that it needs of
 * it, and adds the function that gives a token's logprob.
 */
function watched(sums, temperature) {
  const watchContext = (context) => {
    const native = context._ctx;
    const original = native.sampleToken.bind(native);
    const value = async (row, sampler, ...rest) => {
      const result = await original(row, sampler, ...rest);
      // The sum of the tail is the last read of most rows.
      if (rest[3] !== true) return result;
      sampler.applyConfig({});
      const [, , , pairs] = await original(row, sampler, false, false, true, false);
      const logits = new Map();
      let sum = 0;
      for (let at = 0; at < pairs.length; at += 2) {
        logits.set(pairs[at], pairs[at + 1] / temperature);
        sum += Math.exp((pairs[at + 1] - pairs[1]) / temperature);
      }
      sums.push((token) => logits.get(token) - pairs[1] / temperature - Math.log(sum));
      return result;
    };
    Object.defineProperty(native, "sampleToken", { value, configurable: true });
    return context;
  };
  const watchModel = (model) => ({
    trainContextSize: model.trainContextSize,
    iterateAllTokens: () => model.iterateAllTokens(),
    dispose: () => model.dispose(),
    createContext: async (options) => watchContext(await model.createContext(options)),
  });
  return {
    getLlama: async (options) => {
      const llama = await library.getLlama(options);
      return {
        gpu: llama.gpu,
        dispose: () => llama.dispose(),
        loadModel: async (given) => watchModel(await llama.loadModel(given)),
      };
    },
  };
}

/** One of our small models runs groups of 8: the counts do not depend on the model. */
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
          turns.push({ episode: given.routingKey, prompt, sampled: result.sampledTokens, usage: result.usage });
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
 * Number of distinct beginnings of first prompts, and of those of each episode after its first
 * prompt, without those that end in a token which was computed when it was sampled. The last token
 * of an answer was not.
 */
function idealTokens(turns) {
  const shared = new Map();
  const episodes = groupByEpisode(turns);
  let count = 0;
  for (const own of episodes.values()) {
    const tree = new Map();
    const decoded = new Set();
    const needed = new Set();
    own.forEach(({ prompt, sampled }, turn) => {
      const path = walk(tree, [...prompt, ...sampled.subarray(0, Math.max(0, sampled.length - 1))]);
      if (turn === 0) {
        count += walk(shared, prompt).filter(({ isNew }) => isNew).length;
        for (const { node } of path.slice(0, prompt.length)) decoded.add(node);
      }
      path.forEach(({ node }, at) => (at < prompt.length ? needed : decoded).add(node));
    });
    count += [...needed].filter((node) => !decoded.has(node)).length;
  }
  return count;
}

function groupByEpisode(turns) {
  const episodes = new Map();
  for (const turn of turns) episodes.set(turn.episode, [...(episodes.get(turn.episode) ?? []), turn]);
  return episodes;
}

function walk(tree, tokens) {
  let node = tree;
  return [...tokens].map((token) => {
    const isNew = !node.has(token);
    if (isNew) node.set(token, new Map());
    node = node.get(token);
    return { node, isNew };
  });
}
