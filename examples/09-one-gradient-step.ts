// One gradient from a group of episodes: the shipped model runs one task of the bookshop eight
// times, and everything between its utterances and its new weights is printed. docs/learning.md
// explains the numbers.
// Run: npx trainable-agents example 09 [model folder] [picture.svg]

import { writeFile } from "node:fs/promises";
import { agentFactory } from "trainable-agents/agents";
import { createEmbeddedEngine } from "trainable-agents/engines/embedded";
import { bookshopSource } from "trainable-agents/environments/bookshop";
import { episodeSamples, runGroup } from "trainable-agents/rollout";
import { createTrainer, groupAdvantages, logprobAgreement, policySequences } from "trainable-agents/learner";
import { readCheckpoint, shippedCheckpoint } from "trainable-agents/learner/model";
import { rendererFor } from "trainable-agents/renderers";
import { loadTokenizer } from "trainable-agents/tokenizers";
import { agendaUser } from "trainable-agents/users";
import { type PictureOptions, stepPicture } from "./step-picture.ts";

const folder = process.argv[2] ?? shippedCheckpoint("bookshop-1m");
const checkpoint = await readCheckpoint(folder);
const tokenizer = await loadTokenizer(folder);
const engine = createEmbeddedEngine({ checkpoint, threads: 2, weightVersion: "before" });
const trainer = await createTrainer(checkpoint, { threads: 2 });
const environment = bookshopSource();
const renderer = rendererFor("qwen3-instruct-2507", tokenizer);
const parts = { environment, user: agendaUser(), engine, renderer, strategy: agentFactory() };
const options = { groupSize: 8, seed: 1, seedTurns: true, sampling: { maxNewTokens: 96 }, limits: { maxTurns: 16 } };

// 1. A group: the same task, eight times. The first task whose episodes do not all end with the
// same reward.
const tasks = environment.taskset("train");
let index = 0;
let group = await runGroup(tasks.task(index), parts, options);
while (new Set(group.episodes.map(({ reward }) => reward)).size === 1 && index < 30) {
  index += 1;
  group = await runGroup(tasks.task(index), parts, options);
}
console.log(`1. Eight episodes of ${group.task.id}\n   ${group.task.instruction}\n`);

// 2. Rewards become advantages: the difference from the mean of the group, in units of its spread.
const rewards = group.episodes.map(({ reward }) => reward ?? 0);
const [advantages = []] = groupAdvantages([rewards], { baseline: "group", normalize: true });
console.log("2. Rewards and advantages");
for (const [place, { messages, stopReason }] of group.episodes.entries()) {
  const turns = messages.filter(({ role }) => role === "assistant").length;
  console.log(
    `   #${place}  reward ${rewards[place]}  advantage ${show(advantages[place])}  ${turns} turns, ${stopReason}`,
  );
}

// 3. Episodes become samples: all tokens, and a mask of those that the model chose.
const rows = group.episodes.flatMap((episode, place) =>
  episodeSamples(episode).samples.map((sample) => ({ sample, advantage: advantages[place] ?? 0 })),
);
const best = rows.toSorted((a, b) => b.advantage - a.advantage)[0]!;
const { tokens, lossMask } = best.sample;
const trained = lossMask.reduce((sum, one) => sum + one, 0);
console.log(`\n3. Sample ${best.sample.id}: ${tokens.length} tokens, ${trained} of them in the loss`);
// Tokens around the first one, and around the one with the lowest probability: there the
// conversation was decided.
const logprobAt = (place: number): number => (lossMask[place] === 1 ? (best.sample.logprobs?.[place] ?? 0) : 0);
const first = lossMask.indexOf(1);
const decisive = [...tokens.keys()].reduce(
  (least, place) => (logprobAt(place) < logprobAt(least) ? place : least),
  first,
);
const shown = [-3, -2, -1, 0, 1].map((step) => first + step);
shown.push(...Array.from({ length: 12 }, (_, step) => decisive - 8 + step).filter((place) => place > first + 1));
for (const place of shown) {
  const logprob = best.sample.logprobs?.[place] ?? Number.NaN;
  const text = JSON.stringify(tokenizer.decode([tokens[place]!])).padEnd(16);
  console.log(
    `   ${place}  ${text}  mask ${lossMask[place]}  ${Number.isNaN(logprob) ? "read" : `logprob ${show(logprob)}`}`,
  );
}

// 4. One forward and backward pass over all of them, and one update.
const sequences = policySequences(rows);
const outcome = await trainer.accumulate(sequences);
const agreement = logprobAgreement(sequences, outcome.sequences);
console.log(
  `\n4. Loss ${outcome.loss.toFixed(4)} over ${outcome.targets} tokens, entropy ${outcome.entropy.toFixed(3)} nats per token`,
);
console.log(
  `   logprobs of sampling and training differ by ${agreement.mean.toExponential(1)}, at most ${agreement.largest.toExponential(1)}`,
);
const norm = await trainer.update({ learningRate: 5e-5 });
console.log(`   gradient norm ${norm.toFixed(3)}, one AdamW step of 5e-5`);

// 5. The effect: the same tokens under the new weights.
const after = await trainer.evaluate(sequences);
console.log("\n5. Logprob of all of an episode's actions, before and after the step");
const drawn: PictureOptions["episodes"][number][] = [];
for (const [place, { sample, advantage }] of rows.entries()) {
  const sum = (values: ArrayLike<number>): number => Array.from(values).reduce((total, value) => total + value, 0);
  const [old, now] = [sum(outcome.sequences[place]!.logprobs), sum(after[place]!.logprobs)];
  drawn.push({ reward: sample.reward ?? 0, advantage, before: old, after: now });
  console.log(
    `   ${sample.id.split("#").at(-1)}  advantage ${show(advantage)}  ${show(old)} -> ${show(now)}  (${now > old ? "likelier" : "less likely"})`,
  );
}
const picture = process.argv[3];
if (picture !== undefined) {
  const start = tokens.indexOf(tokenizer.tokenId("<|im_start|>") ?? -1, 1);
  await writeFile(picture, stepPicture({ episodes: drawn, mask: [...lossMask].slice(start) }));
}
await Promise.all([engine.close(), trainer.close()]);

function show(value: number | undefined): string {
  return (value ?? 0).toFixed(3).padStart(8);
}
