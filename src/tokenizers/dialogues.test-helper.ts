// Conversations to train on, as the embedded model sees them: the noisy expert of the bookshop in
// the real loop, rendered.

import { agentFactory } from "../agents/index.ts";
import type { Message, Tool } from "../core/index.ts";
import { bookshopSource, createExpertEngine } from "../environments/bookshop/index.ts";
import { runEpisode } from "../rollout/index.ts";
import { rendererFor } from "../renderers/index.ts";
import { agendaUser } from "../users/index.ts";
import { createReadableTokenizer } from "./readable-tokenizer.ts";

export type Dialogue = {
  readonly messages: readonly Message[];
  readonly tools: readonly Tool[];
  /** Rendered by the family "qwen3-instruct-2507". */
  readonly text: string;
};

export async function bookshopDialogues(count: number): Promise<readonly Dialogue[]> {
  const tokenizer = createReadableTokenizer();
  const engine = createExpertEngine({ tokenizer, noise: 0.1, seed: 1 });
  const environment = bookshopSource();
  const renderer = rendererFor("qwen3-instruct-2507", tokenizer);
  const parts = { environment, user: agendaUser(), engine, renderer, strategy: agentFactory() };
  const tasks = environment.taskset("train");
  const { tools } = environment.open(tasks.task(0));
  const episodes = Array.from({ length: count }, (_, index) => runEpisode(tasks.task(index), parts, { seed: index }));
  return (await Promise.all(episodes)).map(({ messages }) => ({
    messages,
    tools,
    text: renderer.renderPrompt(messages, tools).text,
  }));
}
