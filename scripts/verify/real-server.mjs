// Checks for every real server that serves our model: the contract of engines, greedy and sampled
// logprobs, a weight update in the middle of a request, and episodes. Checks of features that only
// one server has are in that server's module.

import { setTimeout as delay } from "node:timers/promises";

import { checkContract, compareGreedy, makePrompts, requestOf } from "./against-embedded.mjs";
import { playEpisodes } from "./play-episodes.mjs";
import { compareSampled } from "./sampled-logprobs.mjs";

/** @typedef {import("./against-embedded.mjs").ServerEngine} ServerEngine */

export const contextTokens = 2048;

/**
 * @template {ServerEngine} E
 * @template T
 * @param {E} engine
 * @param {(engine: E) => Promise<T>} body
 */
export async function use(engine, body) {
  try {
    return await body(engine);
  } finally {
    await engine.close();
  }
}

/**
 * @param {ReturnType<typeof import("./report.mjs").createReport>} report
 * @param {object} server
 * @param {string} server.folder Folder of the model that it serves.
 * @param {string} server.url
 * @param {readonly string[]} server.flags Flags of `rollout` that name the server and its engine.
 * @param {(stream: boolean) => ServerEngine} server.open
 * @param {readonly ("abort" | "retract" | "in-place")[]} server.pauseModes
 * @param {"processed" | "raw"} server.logprobsMode
 * @param {boolean} server.penalizesPrompt
 * @param {(version: string) => Promise<void>} server.updateWeights While it is paused.
 */
export async function checkServer(report, server) {
  const { folder, open, pauseModes } = server;
  await report.check("the contract of engines, whole and streamed", () =>
    checkContract(open, { contextTokens, pauseModes, settleMs: 3_000 }),
  );
  const prompts = await makePrompts(folder, { count: 24, shortest: 40, longest: 1900 });
  await report.check("greedy, against the embedded engine", () =>
    use(open(false), (engine) => compareGreedy(engine, { folder, prompts, tolerance: 1e-3 })),
  );
  await report.check("sampled logprobs, against our kernels", () =>
    use(open(false), (engine) =>
      compareSampled(engine, {
        folder,
        prompt: prompts[2] ?? Uint32Array.of(1),
        mode: server.logprobsMode,
        penalizesPrompt: server.penalizesPrompt,
        extraOf: serverNames,
      }),
    ),
  );
  for (const mode of pauseModes.filter((one) => one !== "abort")) {
    for (const stream of [false, true]) {
      await report.check(
        `weights updated in the middle of a request, pause ${mode}, ${stream ? "streamed" : "whole"}`,
        () =>
          use(open(stream), (engine) => updateInTheMiddle(engine, { ...server, mode, version: `${mode}-${stream}` })),
      );
    }
  }
  await report.check("16 episodes by the command line", async () => {
    const flags = [
      "--model",
      folder,
      "--tasks",
      "0-15",
      "--max-steps",
      "4",
      "--max-new-tokens",
      "48",
      "--concurrency",
      "16",
    ];
    return (await playEpisodes([...server.flags, ...flags], { episodes: 16 })).figure;
  });
}

/**
 * Parameters that have the same name in both servers.
 *
 * @param {import("./sampled-logprobs.mjs").Params} params
 */
function serverNames({ frequencyPenalty, presencePenalty, logitBias }) {
  return {
    ignore_eos: true,
    ...(frequencyPenalty === undefined ? {} : { frequency_penalty: frequencyPenalty }),
    ...(presencePenalty === undefined ? {} : { presence_penalty: presencePenalty }),
    ...(logitBias === undefined ? {} : { logit_bias: Object.fromEntries(logitBias) }),
  };
}

/**
 * @param {ServerEngine} engine
 * @param {object} options
 * @param {"retract" | "in-place" | "abort"} options.mode
 * @param {string} options.version
 * @param {(version: string) => Promise<void>} options.updateWeights
 */
async function updateInTheMiddle(engine, { mode, version, updateWeights }) {
  const prompt = Uint32Array.of(5, 6, 7);
  const sampling = { temperature: 1, extra: { ignore_eos: true } };
  const began = performance.now();
  await engine.sample(requestOf(prompt, { ...sampling, maxNewTokens: 24 }));
  // Long enough on any machine that the update comes in the middle of the request.
  const perSecond = (24 / (performance.now() - began)) * 1000;
  const maxNewTokens = Math.max(24, Math.min(1_500, Math.round(15 * perSecond)));
  const running = engine.sample(requestOf(prompt, { ...sampling, maxNewTokens }));
  running.catch(() => undefined);
  await delay(1_000);
  await engine.pause(mode);
  try {
    await updateWeights(version);
  } finally {
    await engine.continue();
  }
  const { weightSpans, sampledTokens } = await running;
  const shown = weightSpans.map((span) => `${span.tokenCount} by ${span.reply}`).join(", ");
  const [first, last] = [weightSpans[0], weightSpans.at(-1)];
  if (
    weightSpans.length !== 2 ||
    first?.reply === version ||
    last?.reply !== version ||
    sampledTokens.length !== maxNewTokens
  ) {
    throw new Error(`spans of ${maxNewTokens} tokens: ${shown}`);
  }
  const next = await engine.sample(requestOf(prompt, { ...sampling, maxNewTokens: 2 }));
  if (next.weightSpans.length !== 1 || next.weightSpans[0]?.reply !== version)
    throw new Error("the next reply names other weights");
  return shown;
}
