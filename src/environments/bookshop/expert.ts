// A scripted expert that plays the desk, given only the conversation, with adjustable noise. For
// `npm start`, for tests of the whole path, and for dialogues to clone from. Not an agent: it
// understands only the simulated user's phrases.

import { type Random, createRandom, deriveSeed } from "../../lib/random.ts";
import { dumpJson, type JsonObject } from "../../python-semantics/json/index.ts";
import { type Action, type Step, nextStep } from "./expert/next-step.ts";
import { readConversation } from "./expert/records.ts";
import { readDesk } from "./expert/desk.ts";

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

/** The text of an action, as the policy would write it. */
export function actionText(action: Action): string {
  if (action.type === "say") return action.content;
  const { name, arguments: args } = action.call;
  const body: JsonObject = new Map<string, string | JsonObject>([
    ["name", name],
    ["arguments", args],
  ]);
  return `${action.note === "" ? "" : `${action.note}\n`}<tool_call>\n${dumpJson(body)}\n</tool_call>`;
}

/** The mistakes of a tired clerk: typical errors of a language model while it is still learning. */
export const mistakeNames = [
  "wrong-id",
  "broken-json",
  "several-calls",
  "unknown-tool",
  "skipped-step",
  "untold-fact",
  "gave-up",
] as const;
export type MistakeName = (typeof mistakeNames)[number];

/** Texts that replace the right one: one for each mistake that is possible here. */
export function mistakesOf(
  step: Step,
  random: Random,
): readonly { readonly name: MistakeName; readonly text: string }[] {
  const { action, shortcut } = step;
  const right = actionText(action);
  const mistakes = [
    { name: "wrong-id", text: withWrongId(right, random) },
    { name: "skipped-step", text: shortcut === null ? null : actionText(shortcut) },
    { name: "gave-up", text: "I am sorry, I cannot help with that. Goodbye." },
    ...(action.type === "call" ? callMistakes(action, right) : [{ name: "untold-fact", text: untold(right) } as const]),
  ] as const;
  return mistakes.flatMap(({ name, text }) => (text === null || text === right ? [] : [{ name, text }]));
}

function callMistakes(
  action: Action & { readonly type: "call" },
  right: string,
): readonly { name: MistakeName; text: string }[] {
  const { name, arguments: args } = action.call;
  const call = { name: unknownName(name), arguments: args };
  return [
    { name: "broken-json", text: right.replace("}}\n</tool_call>", "}\n</tool_call>") },
    { name: "several-calls", text: `${right}\n${actionText({ ...action, note: "" })}` },
    { name: "unknown-tool", text: actionText({ ...action, call }) },
  ];
}

function unknownName(name: string): string {
  return name === "look_up" ? "get_record" : `${name}_now`;
}

/** Changes a digit in the last id: the id looks right, but belongs to no record or to another one. */
function withWrongId(text: string, random: Random): string | null {
  const ids = [...text.matchAll(/#[MWBC]\d+/g)];
  const id = ids.at(-1);
  if (id === undefined) return null;
  const place = id.index + 2 + random.integer(id[0].length - 2);
  const digit = (Number(text[place]) + 1 + random.integer(9)) % 10;
  return `${text.slice(0, place)}${digit}${text.slice(place + 1)}`;
}

/** Ends a wish without saying the fact that the member needs. */
function untold(text: string): string | null {
  return text.endsWith(" Anything else?") && /\$\d|\d days/.test(text) ? "Done. Anything else?" : null;
}
