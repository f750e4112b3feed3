// Evaluates a model on tasks it has never seen: pass rates, sampled and greedily, and the
// likelihood of clean dialogues of them. Both go through the same engine, loop, recorder, samples
// and trainer as everything else.

import type { Episode, Tokenizer } from "../../core/index.ts";
import { type Kind, kinds } from "../../environments/bookshop/index.ts";
import { createEmbeddedEngine } from "../../engines/embedded/index.ts";
import { runGroups } from "../../rollout/index.ts";
import type { Trainer } from "../index.ts";
import type { Checkpoint } from "../model/index.ts";
import { createTaskRunner, type Dialogue } from "./dialogues.ts";

export type EpisodeScores = {
  readonly tasks: number;
  readonly passRate: number;
  readonly passRateByKind: Readonly<Record<Kind, number>>;
  /** Pass rates of tasks with one goal, by their case, such as "cancel/shipped"; sorted by it. */
  readonly cases: readonly { readonly name: string; readonly tasks: number; readonly passRate: number }[];
  /** Means per episode. */
  readonly ruleViolations: number;
  readonly toolErrors: number;
};

export type LikelihoodScore = {
  /** Mean nats per token of the expert's messages. */
  readonly nll: number;
  /** Share of the expert's tokens to which the model gives a probability above one half. */
  readonly accuracy: number;
  /** The same share for tokens of digits, which are copied. */
  readonly copyAccuracy: number;
};

/** Runs the first `tasks` validation tasks; the same weights give the same score. */
export async function evaluateEpisodes(
  checkpoint: Checkpoint,
  options: {
    readonly tokenizer: Tokenizer;
    readonly tasks: number;
    readonly threads: number;
    readonly seed: number;
    /** Sampling temperature; 0 is greedy. Default: 1. */
    readonly temperature?: number;
  },
): Promise<EpisodeScores> {
  const { tokenizer, tasks, threads, seed, temperature = 1 } = options;
  const engine = createEmbeddedEngine({ checkpoint, threads, seed });
  try {
    const runner = createTaskRunner(tokenizer, engine);
    const plans = Array.from({ length: tasks }, (_, groupIndex) => {
      const task = runner.task("validation", groupIndex);
      return { groupId: `${task.id}@${groupIndex}`, task, groupIndex };
    });
    const groups = await runGroups(plans, {
      groupSize: 1,
      concurrency: 64 * threads,
      runEpisode: async (task) => ({
        episode: await runner.run(task, seed, temperature),
        result: { samples: [], dropped: [] },
        origin: "new",
      }),
    });
    const ended = await Promise.all(groups.flatMap(({ members }) => members.map((member) => member.ended.open())));
    return scoreOf(ended.map(({ episode }) => episode));
  } finally {
    await engine.close();
  }
}

function scoreOf(episodes: readonly Episode[]): EpisodeScores {
  const failed = episodes.find(({ failure }) => failure !== null);
  if (failed !== undefined) {
    throw new Error(`Cannot score episode "${failed.id}": ${failed.failure?.message}`);
  }
  const mean = (list: readonly Episode[], of: (episode: Episode) => number | null | undefined): number =>
    list.reduce((sum, episode) => sum + (of(episode) ?? 0), 0) / Math.max(1, list.length);
  const passRateOf = (list: readonly Episode[]): number => mean(list, ({ reward }) => reward);
  const byKind = kinds.map((kind) => [kind, passRateOf(episodes.filter(({ info }) => info.get("kind") === kind))]);
  const byCase = new Map<string, Episode[]>();
  for (const episode of episodes) {
    const cases = episode.info.get("cases") as readonly string[];
    if (cases.length === 1) byCase.set(cases[0]!, [...(byCase.get(cases[0]!) ?? []), episode]);
  }
  return {
    tasks: episodes.length,
    passRate: passRateOf(episodes),
    passRateByKind: Object.fromEntries(byKind) as Record<Kind, number>,
    cases: [...byCase]
      .map(([name, list]) => ({ name, tasks: list.length, passRate: passRateOf(list) }))
      .sort((a, b) => (a.name < b.name ? -1 : 1)),
    ruleViolations: mean(episodes, ({ grade }) => grade?.metrics["ruleViolations"]),
    toolErrors: mean(episodes, ({ grade }) => grade?.metrics["toolErrors"]),
  };
}

/** Computes the likelihood of dialogues under the trainer's weights or others of their shape. */
export async function evaluateLikelihood(
  trainer: Trainer,
  dialogues: readonly Dialogue[],
  options: { readonly isCopied: (token: number) => boolean; readonly weights?: Float32Array },
): Promise<LikelihoodScore> {
  const { isCopied, weights } = options;
  const outcomes = await trainer.evaluate(dialogues, weights === undefined ? {} : { weights });
  const counter = new LikelihoodCounter(isCopied);
  dialogues.forEach((dialogue, index) => counter.add(dialogue, outcomes[index]!.logprobs));
  return counter.score();
}

/** Sums of logprobs over dialogues. */
export class LikelihoodCounter {
  readonly #isCopied: (token: number) => boolean;
  readonly #sums = { tokens: 0, nll: 0, likely: 0, copies: 0, likelyCopies: 0 };

  constructor(isCopied: (token: number) => boolean) {
    this.#isCopied = isCopied;
  }

  /** `logprobs`: one per target. */
  add({ tokens, targets }: Dialogue, logprobs: Float32Array): void {
    const sums = this.#sums;
    for (const [index, logprob] of logprobs.entries()) {
      const likely = logprob > Math.log(0.5) ? 1 : 0;
      const copied = this.#isCopied(tokens[targets[index]!]!) ? 1 : 0;
      sums.tokens += 1;
      sums.nll -= logprob;
      sums.likely += likely;
      sums.copies += copied;
      sums.likelyCopies += likely * copied;
    }
  }

  score(): LikelihoodScore {
    const { tokens, nll, likely, copies, likelyCopies } = this.#sums;
    const share = (part: number, whole: number): number => (whole === 0 ? 0 : part / whole);
    return { nll: share(nll, tokens), accuracy: share(likely, tokens), copyAccuracy: share(likelyCopies, copies) };
  }
}
