// The tokenizer of the shipped models, trained on dialogues of the noisy expert. Guidelines and tools stand in every
// dialogue; counted every time they would crowd out the words of members, counted once they would be cut to pieces.

import { createExpertEngine } from "../../environments/bookshop/index.ts";
import { createReadableTokenizer, type ChatTokenizerFiles, trainChatTokenizer } from "../../tokenizers/index.ts";
import { instructions, openDesk } from "./desk.ts";

/** In so many dialogues guidelines and tools are counted once. */
const dialoguesPerPrompt = 20;

export async function trainDialogueTokenizer(options: {
  readonly vocabularySize: number;
  readonly dialogues: number;
  readonly noise: number;
  readonly seed: number;
  readonly contextLength: number;
}): Promise<ChatTokenizerFiles> {
  const { vocabularySize, dialogues, noise, seed, contextLength } = options;
  const readable = createReadableTokenizer();
  const desk = openDesk(readable, createExpertEngine({ tokenizer: readable, noise, seed }));
  const { messages: opening, tools } = instructions();
  const prompt = desk.renderer.renderPrompt(opening, tools).text;
  const texts: string[] = [];
  for (let index = 0; index < dialogues; index++) {
    const { messages } = await desk.play("train", index, seed);
    if (index % dialoguesPerPrompt === 0) texts.push(prompt);
    texts.push(desk.renderer.renderPrompt(messages.slice(opening.length), []).text);
  }
  return trainChatTokenizer(texts, { vocabularySize, contextLength });
}
