// Reads a GGUF file with node-llama-cpp and answers the cases of a reference file: logprobs of the last tokens given those
// before them, and greedy continuations. Started by verify.mjs in a folder where that package is installed.

import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

/**
 * The part of node-llama-cpp's interface that is used.
 *
 * @typedef {{ next?: { probabilities: Map<number, number> } } | undefined} Evaluated
 * @typedef {{ controlledEvaluate(tokens: readonly unknown[]): Promise<Evaluated[]> }} Sequence
 * @typedef {{ getSequence(): Sequence, dispose(): Promise<void> }} Context
 * @typedef {{ createContext(options: object): Promise<Context>, tokens: { eos: number | null } }} Model
 * @typedef {{ loadModel(options: { modelPath: string }): Promise<Model>, dispose(): Promise<void> }} Llama
 * @typedef {{ getLlama(options: object): Promise<Llama> }} Library
 */

const [referencePath = "", answerPath = "", modelPath = ""] = process.argv.slice(2);
const installed = createRequire(join(process.cwd(), "package.json"));
const library = /** @type {Library} */ (await import(pathToFileURL(installed.resolve("node-llama-cpp")).href));
const reference = /** @type {import("./reference.mjs").Reference} */ (readJson(referencePath));
const { version } = /** @type {{ version: string }} */ (readJson("node_modules/node-llama-cpp/package.json"));

const llama = await library.getLlama({ gpu: false, build: "never", logLevel: "error", maxThreads: 1 });
const model = await llama.loadModel({ modelPath });
const asked = { generateNext: { probabilities: true } };
/** @type {unknown[]} */
const answers = [];
for (const { ids, first, greedy } of reference.cases) {
  // Its cache holds keys and values in 16 bits by default.
  const context = await model.createContext({
    contextSize: 2048,
    sequences: 1,
    threads: 1,
    flashAttention: false,
    experimentalKvCacheKeyType: "F32",
    experimentalKvCacheValueType: "F32",
  });
  const sequence = context.getSequence();
  const rows = await sequence.controlledEvaluate(ids.map((id, place) => (place < first - 1 ? id : [id, asked])));
  const logprobs = ids.slice(first).map((id, place) => {
    return Math.log(rows[first - 1 + place]?.next?.probabilities.get(id) ?? 0);
  });
  /** @type {number[]} */
  const continuation = [];
  let next = likeliest(rows.at(-1));
  while (continuation.length < greedy.length) {
    continuation.push(next);
    if (next === model.tokens.eos) break;
    const [row] = await sequence.controlledEvaluate([[next, asked]]);
    next = likeliest(row);
  }
  answers.push({ logprobs, greedy: continuation, encodesEqually: null });
  await context.dispose();
}
writeFileSync(answerPath, JSON.stringify({ peer: `node-llama-cpp ${version}`, answers }));
await llama.dispose();

/**
 * Probabilities come sorted, the highest first.
 *
 * @param {Evaluated} row
 */
function likeliest(row) {
  const [first] = row?.next?.probabilities.keys() ?? [];
  return first ?? -1;
}

/**
 * @param {string} path
 * @returns {unknown}
 */
function readJson(path) {
  return JSON.parse(readFileSync(path, "utf8"));
}
