// Throughput of the embedded model in a second of CPU of one core: tokens trained, prompt tokens
// read, tokens sampled. Shapes as in a conversation of the bookshop: 540 tokens of guidelines and
// tools that all episodes share, 260 of their own, a third of those in the loss. Threads are
// data-parallel, so cores multiply it.
// Run: npm run bench -- model

import { createRandom } from "../dist/lib/random.js";
import {
  Decoder,
  initializeWeights,
  loadKernels,
  modelShapes,
  packSequences,
  pageTokens,
  parameterLayout,
  TrainingModel,
} from "../dist/learner/model/index.js";
import { cpuOf, machine, spread } from "./lib/measure.mjs";

const rounds = 7;
const random = createRandom(1);
const { build } = loadKernels();
console.log(`${machine()}; kernels: ${build}; tokens per second of CPU, median (least to most) of ${rounds}`);

for (const [name, shape] of Object.entries(modelShapes)) {
  const config = { ...shape, vocabularySize: 1536 };
  const weights = initializeWeights(config, { seed: 1 });
  console.log(`\n${name}: ${(parameterLayout(config).size / 1e6).toFixed(2)} million parameters`);
  await measureTraining(config, weights);
  await measureDecoding(config, weights);
}

async function measureTraining(config, weights) {
  const model = new TrainingModel({ config, weights, maxTokens: 2700, maxTargets: 2100 });
  const shared = tokens(config, 540);
  const batches = {
    "training, 4 x 512 tokens, all in the loss": [sequences(config, 4, 512, 1), 0],
    "training, 4 x 512, a third in the loss": [sequences(config, 4, 512, 1 / 3), 0],
    "training, 2 x 1,024, a third in the loss": [sequences(config, 2, 1024, 1 / 3), 0],
    "training, 8 x 260 after a shared 540": [sequences(config, 8, 800, 1 / 3, shared), 540],
  };
  for (const [what, [list, prefixLength]] of Object.entries(batches)) {
    const batch = packSequences(list, { prefixLength });
    const coefficients = new Float32Array(batch.targets.length).fill(-1 / batch.targets.length);
    const own = batch.tokens.length - prefixLength;
    await report(what, own, () => {
      model.forward(batch);
      model.clearGradients();
      model.backward(coefficients);
      model.update({ learningRate: 1e-6 });
    });
  }
}

async function measureDecoding(config, weights) {
  const [context, shared, steps] = [700, 544, 8];
  const sequencesAtMost = 64;
  const ownPages = Math.ceil((context + steps - shared) / pageTokens);
  const pages = shared / pageTokens + sequencesAtMost * ownPages;
  const decoder = new Decoder({ config, weights, maxRows: 256, maxSequences: sequencesAtMost, pages });
  for (let sequence = 0; sequence < sequencesAtMost; sequence++) {
    const table = decoder.pageTable(sequence);
    for (let page = 0; page < shared / pageTokens + ownPages; page++) {
      const isShared = page < shared / pageTokens;
      table[page] = isShared ? page : page + sequence * ownPages;
    }
  }
  const prompt = tokens(config, context);
  const read = (sequence, from, to) => {
    for (let place = from; place < to;) {
      for (; place < to && decoder.room > 0; place++) decoder.add(prompt[place], place, sequence);
      decoder.run([]);
    }
  };
  await report("reading a prompt of 700 tokens", context, () => read(0, 0, context));
  for (let sequence = 1; sequence < sequencesAtMost; sequence++) read(sequence, shared, context);
  for (const count of [1, 8, 16, 32, 64]) {
    await report(`sampling, ${count} at a time, 544 of 700 tokens shared`, count * steps, () => {
      for (let step = 0; step < steps; step++) {
        const rows = Array.from({ length: count }, (_, sequence) => decoder.add(7, context + step, sequence));
        decoder.run(rows);
        for (const row of rows) decoder.temper(row, 1);
      }
    });
  }
}

function tokens(config, count) {
  return Array.from({ length: count }, () => random.integer(config.vocabularySize));
}

/** `share`: fraction of the tokens after `beginning` that are targets. */
function sequences(config, count, length, share, beginning = []) {
  return Array.from({ length: count }, () => {
    const all = [...beginning, ...tokens(config, length - beginning.length)];
    const targets = [...all.keys()].filter((place) => place > beginning.length && random.next() < share);
    return { tokens: all, targets };
  });
}

async function report(what, count, run) {
  const rates = [];
  run();
  for (let round = 0; round < rounds; round++) {
    const { cpuUs } = await cpuOf(run);
    rates.push((count / cpuUs) * 1e6);
  }
  console.log(`  ${what.padEnd(50)}${spread(rates, 0)}`);
}
