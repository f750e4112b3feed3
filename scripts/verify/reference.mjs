// Results of a shipped model on real prompts by our own kernels, as a file for comparison with
// other programs: ids, the logprobs of the last tokens given those before them, and a greedy
// continuation.

import { loadEmbeddedEngine } from "../../dist/engines/embedded/index.js";
import { packSequences, readCheckpoint, TrainingModel } from "../../dist/learner/model/index.js";
import { TokenBuffer } from "../../dist/core/index.js";
import { loadModelFolder } from "../../dist/tokenizers/index.js";
import { testPrompts } from "../../dist/learner/pretraining/index.js";

/**
 * @typedef {object} Reference
 * @property {string} folder Folder of the model.
 * @property {readonly ReferenceCase[]} cases
 */

/**
 * @typedef {object} ReferenceCase
 * @property {string} text The prompt.
 * @property {readonly number[]} ids The same as tokens.
 * @property {number} first Place in `ids` of the first token with a logprob.
 * @property {readonly number[]} logprobs One per token from there on.
 * @property {readonly number[]} greedy Tokens that follow at temperature 0, the end token included.
 */

const mostNewTokens = 32;
/**
 * Maximum logprobs of a prompt: in a short conversation they include guidelines and tools, which
 * all prompts begin with.
 */
const mostLogprobs = 200;

/**
 * @param {string} folder
 * @param {number} count
 * @returns {Promise<Reference>}
 */
export async function makeReference(folder, count) {
  const { tokenizer } = await loadModelFolder(folder);
  const checkpoint = await readCheckpoint(folder);
  const { contextLength } = checkpoint.config;
  const model = new TrainingModel({ ...checkpoint, maxTokens: contextLength, maxTargets: contextLength });
  const engine = await loadEmbeddedEngine(folder, { threads: 1 });
  const endTokenId = tokenizer.tokenId("<|im_end|>") ?? -1;
  /** @type {ReferenceCase[]} */
  const cases = [];
  for (const { text, tokens } of await testPrompts(tokenizer, count)) {
    const first = Math.max(1, tokens.length - mostLogprobs);
    const targets = Uint32Array.from(tokens.keys()).subarray(first);
    const { logprobs } = model.forward(packSequences([{ tokens, targets }]));
    const { sampledTokens } = await engine.sample({
      prompt: TokenBuffer.from(tokens),
      sampling: {
        temperature: 0,
        topP: 1,
        topK: -1,
        minP: 0,
        maxNewTokens: mostNewTokens,
        repetitionPenalty: 1,
        seed: null,
        extra: {},
      },
      stopTokenIds: [endTokenId],
      requestId: `case-${cases.length}`,
      routingKey: null,
    });
    cases.push({ text, ids: [...tokens], first, logprobs: [...logprobs], greedy: [...sampledTokens] });
  }
  await engine.close();
  return { folder, cases };
}
