// How the agenda-based user understands an agent: by phrases, sentence by sentence. It needs no model and no knowledge of
// the domain beyond the phrases of the agenda; what it does not understand leads nowhere and costs patience.

import type { AgendaSlot } from "../core/environment.ts";
import { mentions } from "../lib/text.ts";

/** What an utterance of the agent does; several can hold at once. */
export type Heard = {
  readonly words: string;
  /** It wants a yes or a no to what it is about to do. */
  readonly asksForYes: boolean;
  /** It says that something cannot or may not be done. */
  readonly refuses: boolean;
  /** It asks whether there is anything else. */
  readonly offersMore: boolean;
  /** It says something that is neither a question nor a plea for time. */
  readonly states: boolean;
  /** The sentences that ask for something. */
  readonly questions: readonly string[];
};

const yesWanted =
  /\b(confirm|shall i|should i|do you want me to|would you like me to|want to proceed|may i (proceed|go ahead)|(is|are) (this|that|it|these|everything) (right|correct|ok|okay|fine|all right)|proceed|go ahead|do you agree|okay|ok)\b/;
const yesDemanded = /\b(please confirm|confirm (with|by)|reply (with )?["'(]?yes|yes\s*(\/|or)\s*no)\b|\(yes\b/;
const refusal =
  /\b(cannot|can not|can't|could not|couldn't|unable|unfortunately|impossible|not (possible|allowed|permitted|able|eligible)|no longer (be )?(possible|eligible)|forbids?|forbidden|against (our|the) (rules|policy|guidelines)|must (refuse|decline)|have to (refuse|decline)|won't be able|will not be able)\b/;
const offer = /\b(anything else|something else|any other|further (help|assistance|questions?)|what else)\b/;
const plea =
  /\b(one moment|just a moment|moment please|please wait|hold on|let me (check|look|see)|checking|bear with me)\b/;
const asking =
  /\b(please (give|provide|share|tell|send|enter|let)|(give|tell|send) me|let me know|may i (have|ask|know)|i (will )?need|could you|can you|would you)\b/;

export function listen(words: string): Heard {
  const text = words.toLowerCase().replaceAll("’", "'");
  const sentences = text.split(/(?<=[.!?])\s+|\n+/).filter((sentence) => sentence.trim() !== "");
  const isQuestion = (sentence: string): boolean => /\?["')\s]*$/.test(sentence);
  const offersMore = sentences.some((sentence) => offer.test(sentence));
  return {
    words: text,
    asksForYes:
      yesDemanded.test(text) ||
      sentences.some((sentence) => isQuestion(sentence) && !offer.test(sentence) && yesWanted.test(sentence)),
    refuses: refusal.test(text),
    offersMore,
    states: sentences.some((sentence) => !isQuestion(sentence) && !plea.test(sentence)),
    questions: sentences.filter((sentence) => isQuestion(sentence) || asking.test(sentence)),
  };
}

/** The slots that the agent asks for, in their own order. */
export function slotsAskedFor(heard: Heard, slots: readonly AgendaSlot[]): readonly AgendaSlot[] {
  return slots.filter((slot) =>
    slot.askedBy.some((phrase) => heard.questions.some((question) => holdsWords(question, phrase))),
  );
}

/** Whether each thing is named in one of its ways. */
export function namesAll(heard: Heard, things: readonly (readonly string[])[]): boolean {
  return things.every((ways) => ways.some((way) => mentions(heard.words, way)));
}

export function saysAny(heard: Heard, phrases: readonly string[]): boolean {
  return phrases.some((phrase) => mentions(heard.words, phrase));
}

/** Each word of the phrase begins a word of the sentence. */
function holdsWords(sentence: string, phrase: string): boolean {
  const words = sentence.split(/[^\p{L}\p{N}']+/u);
  return phrase.split(" ").every((wanted) => words.some((word) => word.startsWith(wanted)));
}
