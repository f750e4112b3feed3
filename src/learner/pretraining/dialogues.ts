// Dialogues of pre-training: episodes of the bookshop with its simulated members and the template of our models, run by the
// noisy expert or by a model, and the tokenizer that is trained on them.

import { agentFactory } from "../../agents/index.ts";
import type { Engine, Episode, Task, Tokenizer } from "../../core/index.ts";
import { bookshopSource, comparison, createExpertEngine } from "../../environments/bookshop/index.ts";
import { createRandom, deriveSeed } from "../../lib/random.ts";
import { rendererFor } from "../../renderers/index.ts";
import { runEpisode, episodeSamples } from "../../rollout/index.ts";
import { createReadableTokenizer, type ChatTokenizerFiles, trainChatTokenizer } from "../../tokenizers/index.ts";
import { agendaUser } from "../../users/index.ts";

export const templateFamily = "qwen3-instruct-2507";

export type Split = "train" | "validation";

const environment = bookshopSource();
const tasksets = { train: environment.taskset("train"), validation: environment.taskset("validation") } as const;

/** Runs tasks; `round` seeds user and sampling, so that a task can be run in many ways. */
export function createTaskRunner(tokenizer: Tokenizer, engine: Engine) {
  const renderer = rendererFor(templateFamily, tokenizer);
  const parts = { environment, user: agendaUser(), engine, renderer, strategy: agentFactory() };
  return {
    renderer,
    /** The task at `index`; after the last, the first again. */
    task: (split: Split, index: number): Task => tasksets[split].task(index % tasksets[split].size),
    run: (task: Task, round: number, temperature = 1): Promise<Episode> =>
      runEpisode(task, parts, {
        // If the seed did not include the task, all episodes would draw the same random numbers at
        // the same turn.
        seed: deriveSeed(round, task.id),
        seedTurns: true,
        sampling: { temperature, maxNewTokens: 96 },
      }),
  };
}

/** The messages that every episode begins with, and the tools. */
function instructions() {
  const { guidelines, tools } = environment.open(tasksets.train.task(0));
  return { messages: [{ role: "system", content: guidelines }] as const, tools };
}

/** Tokens of guidelines and tools, up to where a conversation begins. */
function instructionsLength(tokenizer: Tokenizer): number {
  const { messages, tools } = instructions();
  const { tokens } = rendererFor(templateFamily, tokenizer).renderPrompt(messages, tools);
  // The generation prompt follows the guidelines and tools; it does not count.
  return tokens.lastIndexOf(tokenizer.tokenId("<|im_start|>") ?? -1);
}

export type Dialogue = {
  /** Guidelines and tools, then the conversation. */
  readonly tokens: Uint32Array;
  /** Places in `tokens` of the agent's messages; ascending. */
  readonly targets: Uint32Array;
  /** Tokens of guidelines and tools. */
  readonly promptLength: number;
};

/**
 * The conversation without guidelines and tools: the cheapest training data, since the guidelines
 * need not be read.
 */
export function withoutPrompt({ tokens, targets, promptLength }: Dialogue): Dialogue {
  const places = targets.map((place) => place - promptLength);
  return { tokens: tokens.subarray(promptLength), targets: places, promptLength: 0 };
}

/** Dialogues `first` to `first + count - 1` of an endless list; every call gives the same ones. */
export type DialogueSource = (first: number, count: number) => Promise<readonly Dialogue[]>;

/** Behaviour of the expert: how often it makes mistakes, and how often it refuses nothing. */
export type Teacher = { readonly noise: number; readonly habit: number; readonly seed: number };

export function expertDialogues(
  tokenizer: Tokenizer,
  { split, noise, habit, seed }: Teacher & { readonly split: Split },
): DialogueSource {
  const runner = createTaskRunner(tokenizer, createExpertEngine({ tokenizer, noise, habit, seed }));
  const tasks = tasksets[split].size;
  const promptLength = instructionsLength(tokenizer);
  // The first token of an action carries the probability of the whole.
  const right = Math.log(1 - noise) - 1e-6;
  const dialogue = async (place: number): Promise<Dialogue> => {
    const episode = await runner.run(runner.task(split, place), seed + Math.floor(place / tasks));
    const [sample] = episodeSamples(episode).samples;
    if (sample === undefined) throw new Error(`Cannot clone episode "${episode.id}": it has no sample.`);
    const { tokens, lossMask, logprobs } = sample;
    const targets: number[] = [];
    let isRight = true;
    for (let at = 1; at < tokens.length; at++) {
      if (lossMask[at] !== 1) continue;
      if (lossMask[at - 1] !== 1) isRight = logprobs![at]! >= right;
      if (isRight) targets.push(at);
    }
    return { tokens, targets: Uint32Array.from(targets), promptLength };
  };
  return (first, count) => Promise.all(Array.from({ length: count }, (_, index) => dialogue(first + index)));
}

/** Rows of a source, with a drill instead of the last of every `every` rows. */
export function withDrills(
  source: DialogueSource,
  tokenizer: Tokenizer,
  options: { every: number; seed: number },
): DialogueSource {
  const { every, seed } = options;
  const drill = comparisonDrill(tokenizer);
  return async (first, count) => {
    const places = Array.from({ length: count }, (_, index) => first + index);
    const isDrill = (place: number): boolean => place % every === every - 1;
    const before = (place: number): number => place - Math.floor(place / every);
    const conversations = [...(await source(before(first), before(first + count) - before(first)))];
    return places.map((place) =>
      isDrill(place) ? drill(deriveSeed(seed, "comparison", place)) : conversations.shift()!,
    );
  };
}

/**
 * Drills that copy numbers and compare them with the limits of the guidelines, in the style of the
 * expert's notes; the copies and the verdicts are learnt. Amounts of held-out tasks occur in no
 * train task, and a language model has no other way to learn which of two numbers is larger.
 */
function comparisonDrill(tokenizer: Tokenizer): (seed: number) => Dialogue {
  const { messages, tools } = instructions();
  const renderer = rendererFor(templateFamily, tokenizer);
  const opening = renderer.renderPrompt([...messages, { role: "user", content: "" }], tools).tokens;
  const promptLength = instructionsLength(tokenizer);
  return (seed) => {
    const random = createRandom(seed);
    const sentences = Array.from({ length: 14 }, () => {
      const number = 2 + random.integer(97);
      if (random.next() < 0.5) {
        const compared = [10, 50].map((limit) => comparison(number, limit)).join(", ");
        return `Top up $${number}: ${compared}. `;
      }
      const [tier, limit] = random.pick([["silver", 30] as const, ["gold", 60] as const]);
      return `The order is delivered ${number} days ago. Of ${tier}, ${comparison(number, limit)}. `;
    });
    const text = sentences.join("");
    const learnt = [...text.matchAll(/\d+(?= to )| (?:more|less|same)/g)].map(({ 0: part, index }) => [
      index,
      index + part.length,
    ]);
    const tokens = [...opening];
    const targets: number[] = [];
    let place = 0;
    for (const token of tokenizer.encode(text)) {
      if (learnt.some(([start, end]) => place >= start! && place < end!)) targets.push(tokens.length);
      tokens.push(token);
      place += tokenizer.decode([token]).length;
    }
    return { tokens: Uint32Array.from(tokens), targets: Uint32Array.from(targets), promptLength };
  };
}

/** Guidelines and tools are counted once for this many dialogues. */
export const dialoguesPerPrompt = 20;

export async function trainDialogueTokenizer(
  options: Teacher & { readonly vocabularySize: number; readonly dialogues: number; readonly contextLength: number },
): Promise<ChatTokenizerFiles> {
  const { vocabularySize, dialogues, noise, habit, seed, contextLength } = options;
  const readable = createReadableTokenizer();
  const runner = createTaskRunner(readable, createExpertEngine({ tokenizer: readable, noise, habit, seed }));
  const { messages: opening, tools } = instructions();
  const prompt = runner.renderer.renderPrompt(opening, tools).text;
  const texts: string[] = [];
  for (let index = 0; index < dialogues; index++) {
    const { messages } = await runner.run(runner.task("train", index), seed);
    if (index % dialoguesPerPrompt === 0) texts.push(prompt);
    texts.push(runner.renderer.renderPrompt(messages.slice(opening.length), []).text);
  }
  return trainChatTokenizer(texts, { vocabularySize, contextLength });
}

/**
 * Prompts that end before an action: before the first action of the first task, the second of the
 * second, and so on.
 */
export async function testPrompts(
  tokenizer: Tokenizer,
  count: number,
): Promise<readonly { readonly text: string; readonly tokens: Uint32Array }[]> {
  const dialogues = await expertDialogues(tokenizer, { split: "validation", noise: 0, habit: 0, seed: 1 })(0, count);
  return dialogues.map(({ tokens, targets }, index) => {
    const starts = targets.filter((place, at) => at === 0 || targets[at - 1] !== place - 1);
    const prompt = tokens.slice(0, starts[index % starts.length]);
    return { text: tokenizer.decode(prompt), tokens: prompt };
  });
}
