// A scripted expert that plays the desk, given only the conversation, with adjustable noise. For
// `npm start`, for tests of the whole path, and for dialogues to clone from. Not an agent: it
// understands only the simulated user's phrases.

import { createRandom, deriveSeed } from "../../lib/random.ts";
import { actionText, type MistakeName, mistakesOf } from "./expert/mistakes.ts";
import { readConversation } from "./expert/records.ts";
import { readDesk } from "./expert/desk.ts";
import { nextStep } from "./expert/next-step.ts";

export type ExpertOptions = {
  /** Probability of a mistake at each action, 0 to 1. Default: 0. */
  readonly noise?: number;
  /**
   * Share of conversations, 0 to 1, in which the expert refuses only what days and amounts forbid:
   * a habit to unlearn. The first record that was looked up decides which conversations these are.
   * Default: 0.
   */
  readonly habit?: number;
  /** Seed that selects the conversations with the habit. Default: 0. */
  readonly habitSeed?: number;
  /** Decides, together with only the prompt, which mistakes are made. Default: 0. */
  readonly seed?: number;
};

export type ExpertAction = {
  /** An utterance, or `<tool_call>` with JSON, without an end token. */
  readonly text: string;
  /**
   * Probability of this text, given the prompt, under the mixture of the right action and its
   * mistakes.
   */
  readonly probability: number;
  readonly mistake: MistakeName | null;
};

/**
 * The next action for a prompt in ChatML as Qwen's templates write it, generation prompt included. The same prompt, noise
 * and seed give the same action, in any order of calls. Throws a `RangeError` for a noise outside 0 to 1.
 */
export function expertAction(prompt: string, options: ExpertOptions = {}): ExpertAction {
  const { noise = 0, habit = 0, habitSeed = 0, seed = 0 } = options;
  for (const [name, share] of [["noise", noise] as const, ["habit", habit] as const]) {
    if (share >= 0 && share <= 1) continue;
    throw new RangeError(`Cannot run the expert: ${name} is ${share}, expected a number from 0 to 1.`);
  }
  const lines = readConversation(prompt);
  const first = lines.find((line) => line.role === "till");
  const isLenient = habit > 0 && createRandom(deriveSeed(habitSeed, "habit", first?.text ?? "")).next() < habit;
  const step = nextStep(readDesk(lines), isLenient);
  const random = createRandom(deriveSeed(seed, "expert", prompt));
  const isMistaken = random.next() < noise;
  const mistakes = mistakesOf(step, random);
  if (!isMistaken) return { text: actionText(step.action), probability: 1 - noise, mistake: null };
  const { name, text } = random.pick(mistakes);
  return { text, probability: noise / mistakes.length, mistake: name };
}
