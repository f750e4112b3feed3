// Meaning of a server's logprobs: tokens sampled with one parameter at a time, compared with the
// distribution that our own kernels compute for the same positions. A logprob comes from the
// distribution after penalties, biases and temperature and before truncation (SGLang), or from the
// model's own (vLLM, unless it is started otherwise); truncated tokens are never sampled.

import { Decoder, pageTokens, readCheckpoint } from "../../dist/learner/model/index.js";
import { plainParams } from "../../dist/engines/plain-params.js";
import { adjustLogits } from "../../dist/engines/token-sampling.js";
import { requestOf } from "./against-embedded.mjs";

/** @typedef {Partial<import("../../dist/engines/token-sampling.js").GenerationParams>} Params */

const maxNewTokens = 12;
const plain = { ...plainParams, maxNewTokens };

/** @type {readonly Params[]} */
const cases = [
  {},
  { temperature: 0.5 },
  { temperature: 2 },
  { topP: 0.5 },
  { topK: 3 },
  { minP: 0.2 },
  { temperature: 0.7, topP: 0.9, topK: 20 },
  { frequencyPenalty: 0.7 },
  { presencePenalty: 0.7 },
  { repetitionPenalty: 1.3 },
  { logitBias: new Map([[300, 6]]) },
];

/**
 * Rejects with the cases in which a logprob differs from the expected one, or a truncated token was
 * sampled.
 *
 * @param {import("./against-embedded.mjs").ServerEngine} engine
 * @param {object} options
 * @param {string} options.folder
 * @param {Uint32Array} options.prompt
 * @param {"processed" | "raw"} options.mode
 * @param {boolean} options.penalizesPrompt True if tokens of the prompt count for the repetition penalty.
 * @param {(params: Params) => Record<string, unknown>} options.extraOf The server's names of parameters that the contract does not name.
 */
export async function compareSampled(engine, { folder, prompt, mode, penalizesPrompt, extraOf }) {
  const checkpoint = await readCheckpoint(folder);
  /** @type {string[]} */
  const wrong = [];
  let [largest, compared] = [0, 0];
  const answers = await Promise.all(
    cases.map(async (params) => {
      const { temperature = 1, topP = 1, topK = -1, minP = 0, repetitionPenalty = 1 } = params;
      const sampling = { temperature, topP, topK, minP, repetitionPenalty, maxNewTokens };
      const extra = extraOf(params);
      return { params, result: await engine.sample(requestOf(prompt, { ...sampling, extra })) };
    }),
  );
  for (const { params, result } of answers) {
    const full = { ...plain, ...params };
    const rows = logitsAfter(checkpoint, prompt, result.sampledTokens);
    /** @type {Map<number, number>} */
    const counts = new Map();
    for (const [place, token] of result.sampledTokens.entries()) {
      const raw = rows[place] ?? new Float32Array(0);
      const adjusted = raw.slice();
      const seen = penalizesPrompt && full.repetitionPenalty !== 1 ? withPrompt(counts, prompt) : counts;
      adjustLogits(adjusted, full, seen);
      const expected = mode === "raw" ? logprobOf(raw, token, 1) : logprobOf(adjusted, token, full.temperature);
      const difference = Math.abs((result.logprobs?.[place] ?? NaN) - expected);
      if (!(difference < 2e-3))
        wrong.push(`${JSON.stringify(params)}: ${result.logprobs?.[place]} at token ${place}, expected ${expected}`);
      if (!isKept(adjusted, token, full)) wrong.push(`${JSON.stringify(params)}: token ${place} is cut off`);
      largest = Math.max(largest, difference);
      compared++;
      counts.set(token, (counts.get(token) ?? 0) + 1);
    }
  }
  if (wrong.length > 0)
    throw new Error(`${wrong.length} faults in ${compared} tokens: ${wrong.slice(0, 6).join("; ")}`);
  return `${compared} tokens under ${cases.length} sets of parameters, logprobs within ${largest.toPrecision(2)}, none that is cut off`;
}

/**
 * Logits for each token of the answer, given all before it.
 *
 * @param {Awaited<ReturnType<typeof readCheckpoint>>} checkpoint
 * @param {Uint32Array} prompt
 * @param {Uint32Array} answer
 */
function logitsAfter({ config, weights }, prompt, answer) {
  const tokens = [...prompt, ...answer];
  const pages = Math.ceil(tokens.length / pageTokens);
  const decoder = new Decoder({ config, weights, maxRows: tokens.length, maxSequences: 1, pages });
  for (let page = 0; page < pages; page++) decoder.pageTable(0)[page] = page;
  const rows = tokens.map((token, place) => decoder.add(token, place, 0));
  decoder.run(rows.slice(prompt.length - 1, -1));
  return Array.from(answer, (_, place) => decoder.logits(place).slice());
}

/**
 * The repetition penalty applies to a token once, no matter how often it occurs.
 *
 * @param {ReadonlyMap<number, number>} counts @param {Uint32Array} prompt
 */
function withPrompt(counts, prompt) {
  return new Map([...Array.from(prompt, (token) => /** @type {[number, number]} */ ([token, 1])), ...counts]);
}

/** @param {Float32Array} logits @param {number} token @param {number} temperature */
function logprobOf(logits, token, temperature) {
  return Math.log(probabilitiesOf(logits, temperature)[token] ?? NaN);
}

/** @param {Float32Array} logits @param {number} temperature */
function probabilitiesOf(logits, temperature) {
  const highest = Math.max(...logits);
  const powers = Array.from(logits, (logit) => Math.exp((logit - highest) / temperature));
  const sum = powers.reduce((total, power) => total + power, 0);
  return powers.map((power) => power / sum);
}

/**
 * True if a token may be sampled, with a small tolerance at the limits.
 *
 * @param {Float32Array} logits
 * @param {number} token
 * @param {typeof plain} params
 */
function isKept(logits, token, { temperature, topP, topK, minP }) {
  const probabilities = probabilitiesOf(logits, temperature);
  const own = probabilities[token] ?? 0;
  const above = probabilities.filter((one) => one > own * 1.001);
  const massAbove = above.reduce((sum, one) => sum + one, 0);
  const room = 1e-3;
  return (
    (topK === -1 || above.length < topK) &&
    massAbove <= topP + room &&
    own >= minP * Math.max(...probabilities) * (1 - room)
  );
}
