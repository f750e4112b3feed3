// Reads a GGUF file with node-llama-cpp and answers the cases of a reference file: logprobs of every token given those before
// it, and greedy continuations. Started by verify.mjs in a folder where that package is installed.

import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [referencePath = "", answerPath = "", modelPath = ""] = process.argv.slice(2);
const { resolve } = createRequire(join(process.cwd(), "package.json"));
const { getLlama } = await import(pathToFileURL(resolve("node-llama-cpp")).href);
const reference = JSON.parse(readFileSync(referencePath, "utf8"));
const { version } = JSON.parse(readFileSync("node_modules/node-llama-cpp/package.json", "utf8"));

const llama = await getLlama({ gpu: false, build: "never", logLevel: "error", maxThreads: 1 });
const model = await llama.loadModel({ modelPath });
const endToken = model.tokens.eos;
/** @type {unknown[]} */
const answers = [];
for (const { ids, greedy } of reference.cases) {
  // Its cache holds keys and values in 16 bits unless it is told otherwise.
  const context = await model.createContext({
    contextSize: 2048,
    sequences: 1,
    threads: 1,
    flashAttention: false,
    experimentalKvCacheKeyType: "F32",
    experimentalKvCacheValueType: "F32",
  });
  const sequence = context.getSequence();
  const asked = { generateNext: { probabilities: true } };
  const rows = await sequence.controlledEvaluate(ids.map((/** @type {number} */ id) => [id, asked]));
  const logprobs = ids.slice(1).map((/** @type {number} */ id, /** @type {number} */ place) => {
    return Math.log(rows[place].next.probabilities.get(id));
  });
  /** @type {number[]} */
  const continuation = [];
  let next = rows.at(-1).next.probabilities.keys().next().value;
  while (continuation.length < greedy.length) {
    continuation.push(next);
    if (next === endToken) break;
    const [row] = await sequence.controlledEvaluate([[next, asked]]);
    next = row.next.probabilities.keys().next().value;
  }
  answers.push({ logprobs, greedy: continuation, encodesEqually: null });
  await context.dispose();
}
writeFileSync(answerPath, JSON.stringify({ peer: `node-llama-cpp ${version}`, answers }));
await llama.dispose();
