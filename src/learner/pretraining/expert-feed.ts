// Dialogues of the noisy expert on train tasks, in the order of the tasks. One round through all tasks after the other, each
// with other phrases and other mistakes, so that no dialogue comes twice.

import type { Tokenizer } from "../../core/index.ts";
import { createExpertEngine } from "../../environments/bookshop/index.ts";
import { episodeSamples } from "../../rollout/index.ts";
import { openDesk, type Split, taskCount } from "./desk.ts";
import { type Dialogue, dialogueOf } from "./dialogue.ts";

/** Dialogues `first` to `first + count - 1` of an endless row; the same ones whenever they are asked for. */
export type ExpertFeed = (first: number, count: number) => Promise<readonly Dialogue[]>;

export function expertFeed(
  tokenizer: Tokenizer,
  options: { readonly split: Split; readonly noise: number; readonly seed: number },
): ExpertFeed {
  const { split, noise, seed } = options;
  const desk = openDesk(tokenizer, createExpertEngine({ tokenizer, noise, seed }));
  const tasks = taskCount(split);
  const dialogue = async (place: number): Promise<Dialogue> => {
    const episode = await desk.play(split, place, seed + Math.floor(place / tasks));
    const [sample] = episodeSamples(episode).samples;
    if (sample === undefined) throw new Error(`Cannot clone episode "${episode.id}": it gave no sample.`);
    return dialogueOf(sample);
  };
  return (first, count) => Promise.all(Array.from({ length: count }, (_, index) => dialogue(first + index)));
}
