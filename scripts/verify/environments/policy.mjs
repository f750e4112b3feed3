// A policy that acts in the worlds of this verification, given only its prompt, behind a server
// that speaks SGLang's protocol: sampled like any other policy, through tokens, with the same reply
// to the same prompt. Not a model: it has no weights.

import { setTimeout as delay } from "node:timers/promises";

import { createFunctionSampler, createSglangFront } from "../../../dist/testing/index.js";
import { createReadableTokenizer } from "../../../dist/tokenizers/index.js";

const tokenizer = createReadableTokenizer();

/**
 * @param {string} name
 * @param {Record<string, unknown>} args
 */
export const call = (name, args) => `<tool_call>\n${JSON.stringify({ name, arguments: args })}\n</tool_call>`;

/**
 * Serves a policy on a free port. `decide`: maps the whole prompt to the reply, without the end of
 * the turn.
 *
 * @param {(prompt: string) => string} decide
 * @param {{ readonly latencyMs?: number }} [options] Duration of a turn.
 */
export function servePolicy(decide, { latencyMs = 0 } = {}) {
  const sampler = createFunctionSampler(({ promptIds }) => ({
    ids: tokenizer.encode(`${decide(tokenizer.decode(promptIds))}<|im_end|>`),
  }));
  const slow = {
    ...sampler,
    sample: async (/** @type {Parameters<typeof sampler.sample>} */ ...given) => {
      await delay(latencyMs);
      return sampler.sample(...given);
    },
  };
  return createSglangFront({ sampler: latencyMs === 0 ? sampler : slow }).listen();
}

/**
 * Contents of the tool messages of a prompt, in order.
 *
 * @param {string} prompt
 * @returns {string[]}
 */
export function observations(prompt) {
  return [...prompt.matchAll(/<tool_response>\n([\s\S]*?)\n<\/tool_response>/g)].map(([, text = ""]) => text);
}

/**
 * Guesses by bisection; first with a wrong type if `seed` of the task is odd.
 *
 * @param {string} prompt
 */
export function guess(prompt) {
  let [low, high] = [1, 8];
  const seen = observations(prompt);
  for (const text of seen) {
    const middle = Math.floor((low + high) / 2);
    if (text.includes("Too low")) low = middle + 1;
    else if (text.includes("Too high")) high = middle - 1;
  }
  if (seen.length === 0) return call("guess", { guess: "a number" });
  return call("guess", { guess: Math.floor((low + high) / 2) });
}

/** Opens one box after another, including one that does not exist. @param {string} prompt */
export function openBoxes(prompt) {
  const count = observations(prompt).length;
  return count === 5 ? "I give up." : call("open_box", { number: count === 0 ? 9 : count });
}

/**
 * Answers with the sum, after a refused call, and calls `look` once.
 *
 * @param {string} prompt
 */
export function addUp(prompt) {
  const [, left = "0", right = "0"] = /What is (\d+) \+ (\d+)\?/.exec(prompt) ?? [];
  const steps = [
    call("answer", { value: "many" }),
    call("look", {}),
    call("recite", {}),
    call("answer", { value: Number(left) + Number(right) }),
    call("answer", { value: 0 }),
  ];
  return steps[observations(prompt).length] ?? "Done.";
}
