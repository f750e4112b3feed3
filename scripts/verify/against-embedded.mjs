// A server against the embedded engine on the same weights: the same prompts, greedy; and the
// contract of engines.

import { TokenBuffer } from "../../dist/core/index.js";
import { loadEmbeddedEngine } from "../../dist/engines/embedded/index.js";
import { testPrompts } from "../../dist/learner/pretraining/index.js";
import { examineEngine } from "../../dist/testing/index.js";
import { loadModelFolder } from "../../dist/tokenizers/index.js";

/** @typedef {import("../../dist/engines/sglang/index.js").SglangEngine | import("../../dist/engines/vllm/index.js").VllmEngine} ServerEngine */
/** @typedef {import("../../dist/core/index.js").SampleRequest} SampleRequest */

const plain = {
  temperature: 0,
  topP: 1,
  topK: -1,
  minP: 0,
  maxNewTokens: 16,
  repetitionPenalty: 1,
  seed: null,
  extra: {},
};
let asked = 0;

/**
 * A request of the verification, greedy by default.
 *
 * @param {ArrayLike<number>} prompt
 * @param {Partial<SampleRequest["sampling"]>} [sampling]
 * @param {readonly number[]} [stopTokenIds]
 * @returns {SampleRequest}
 */
export function requestOf(prompt, sampling = {}, stopTokenIds = []) {
  const requestId = `verify-${process.pid}-${String(++asked).padStart(6, "0")}`;
  return {
    prompt: TokenBuffer.from(prompt),
    sampling: { ...plain, ...sampling },
    stopTokenIds,
    requestId,
    routingKey: requestId,
  };
}

/**
 * Prompts of growing length from real conversations.
 *
 * @param {string} folder Folder of the model.
 * @param {{ readonly count: number, readonly shortest: number, readonly longest: number }} options Lengths in tokens.
 */
export async function makePrompts(folder, { count, shortest, longest }) {
  const { tokenizer } = await loadModelFolder(folder);
  const conversations = await testPrompts(tokenizer, 3 * count);
  return Array.from({ length: count }, (_, index) => {
    const length = Math.round(shortest + ((longest - shortest) * index) / (count - 1));
    const ids = conversations.slice(3 * index, 3 * index + 4).flatMap(({ tokens }) => [...tokens]);
    if (ids.length < length) throw new Error(`The conversations have ${ids.length} tokens, expected ${length}.`);
    return Uint32Array.from(ids.slice(0, length));
  });
}

/**
 * Compares greedy answers and their logprobs. Rejects if an answer differs, or a logprob differs by
 * more than the tolerance.
 *
 * @param {ServerEngine} engine
 * @param {object} options
 * @param {string} options.folder Folder of the model that the server serves.
 * @param {readonly Uint32Array[]} options.prompts
 * @param {number} options.tolerance
 */
export async function compareGreedy(engine, { folder, prompts, tolerance }) {
  const { tokenizer } = await loadModelFolder(folder);
  const stop = [tokenizer.tokenId("<|im_end|>") ?? -1];
  const embedded = await loadEmbeddedEngine(folder, { threads: 1 });
  let [largest, compared, equal] = [0, 0, 0];
  try {
    await Promise.all(
      prompts.map(async (prompt) => {
        const request = requestOf(prompt, {}, stop);
        const [theirs, ours] = [await engine.sample(request), await embedded.sample(request)];
        if (theirs.sampledTokens.join() === ours.sampledTokens.join()) equal++;
        for (const [place, token] of ours.sampledTokens.entries()) {
          if (token !== theirs.sampledTokens[place]) break;
          const difference = Math.abs((theirs.logprobs?.[place] ?? NaN) - (ours.logprobs?.[place] ?? NaN));
          largest = Number.isFinite(difference) ? Math.max(largest, difference) : Infinity;
          compared++;
        }
      }),
    );
  } finally {
    await embedded.close();
  }
  const lengths = prompts.map(({ length }) => length);
  const figure = `${equal} of ${prompts.length} answers equal, prompts of ${Math.min(...lengths)} to ${Math.max(...lengths)} tokens, ${compared} logprobs ${largest === 0 ? "equal" : `within ${largest.toPrecision(2)}`}`;
  if (equal < prompts.length || largest > tolerance) throw new Error(`${figure}; ${tolerance} is the most`);
  return figure;
}

/**
 * The contract of engines, whole and streamed. Rejects with the checks that failed.
 *
 * @param {(stream: boolean) => ServerEngine} open
 * @param {Pick<import("../../dist/testing/index.js").EngineExamination, "contextTokens" | "pauseModes" | "settleMs">} options
 */
export async function checkContract(open, options) {
  const outcomes = [];
  for (const stream of [false, true]) {
    const made = await examineEngine({ ...options, open: () => open(stream), unpausable: null });
    outcomes.push(
      ...made.map((outcome) => ({ ...outcome, name: `${stream ? "streamed" : "whole"}: ${outcome.name}` })),
    );
  }
  const failed = outcomes.filter(({ result }) => result === "failed");
  const ok = outcomes.filter(({ result }) => result === "ok").length;
  if (failed.length === 0) return `${ok} ok, ${outcomes.length - ok} not applicable`;
  throw new Error(failed.map(({ name, reason }) => `${name} (${reason})`).join("; "));
}
