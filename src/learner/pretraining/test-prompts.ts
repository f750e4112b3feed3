// Real prompts of tasks that no model here was trained on: for comparing programs, not for training.

import type { Tokenizer } from "../../core/index.ts";
import { expertFeed } from "./expert-feed.ts";

/** As they stand before an action: the first of the first task, the second of the second, and so on. */
export async function testPrompts(
  tokenizer: Tokenizer,
  count: number,
): Promise<readonly { readonly text: string; readonly tokens: Uint32Array }[]> {
  const dialogues = await expertFeed(tokenizer, { split: "test", noise: 0, seed: 1 })(0, count);
  return dialogues.map(({ tokens, targets }, index) => {
    const starts = targets.filter((place, at) => at === 0 || targets[at - 1] !== place - 1);
    const prompt = tokens.slice(0, starts[index % starts.length]);
    return { text: tokenizer.decode(prompt), tokens: prompt };
  });
}
