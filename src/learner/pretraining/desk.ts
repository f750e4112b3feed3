// What every episode of pre-training is played with: the bookshop, its simulated members, and the template of our models.

import { agentFactory } from "../../agents/index.ts";
import type { Engine, Episode, Renderer, Tokenizer } from "../../core/index.ts";
import { bookshopSource } from "../../environments/bookshop/index.ts";
import { runEpisode } from "../../rollout/index.ts";
import { deriveSeed } from "../../lib/random.ts";
import { rendererFor } from "../../renderers/index.ts";
import { agendaUser } from "../../users/index.ts";

export const templateFamily = "qwen3-instruct-2507";

export type Split = "train" | "test";

/** Plays tasks of a split by their index; `round` seeds user and sampling, so that a task can be played in many ways. */
export type Desk = {
  readonly renderer: Renderer;
  /** The task at `index`, beginning anew after the last. */
  play(split: Split, index: number, round: number): Promise<Episode>;
};

const environment = bookshopSource();
const tasksets = { train: environment.taskset("train"), test: environment.taskset("test") } as const;

export function openDesk(tokenizer: Tokenizer, engine: Engine): Desk {
  const renderer = rendererFor(templateFamily, tokenizer);
  const parts = { environment, user: agendaUser(), engine, renderer, strategy: agentFactory() };
  return {
    renderer,
    play: (split, index, round) => {
      const tasks = tasksets[split];
      const task = tasks.task(index % tasks.size);
      return runEpisode(task, parts, {
        // Without the task in it, all episodes would draw the same luck at the same turn.
        seed: deriveSeed(round, task.id),
        seedTurns: true,
        sampling: { temperature: 1, maxNewTokens: 96 },
      });
    },
  };
}

export function taskCount(split: Split): number {
  return tasksets[split].size;
}

/** The messages that every episode begins with, and the tools. */
export function instructions() {
  const { guidelines, tools } = environment.open(tasksets.train.task(0));
  return { messages: [{ role: "system", content: guidelines }] as const, tools };
}

/** Tokens of guidelines and tools, up to where a conversation begins. */
export function instructionsLength(tokenizer: Tokenizer): number {
  const { messages, tools } = instructions();
  const { tokens } = rendererFor(templateFamily, tokenizer).renderPrompt(messages, tools);
  // The generation prompt stands behind them.
  return tokens.lastIndexOf(tokenizer.tokenId("<|im_start|>") ?? -1);
}
