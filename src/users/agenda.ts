// A user without a model: it follows the structured goal of its task by an agenda (Schatzmann et
// al. 2007), a stack of pending acts. The agent's utterances push answers on top; only requested
// acts are popped; below them wait the next goals and, at the bottom, goodbye. The same task, seed
// and agent's messages give the same lines.
//
//   agent's message ─► listen ─► push acts ─► pop what is ready ─► line
//                                stack: [inform order][request goal 2][goodbye]

import type { AgendaSlot } from "../core/agenda.ts";
import {
  type Agenda,
  type AgendaGoal,
  ConfigurationError,
  freeUsage,
  type Task,
  type UserLine,
  type UserSource,
} from "../core/index.ts";
import { createRandom, deriveSeed, type Random } from "../lib/random.ts";
import { mentions } from "../lib/text.ts";
import { orderedUser, rehearsedUser, utteranceIn } from "./conversation.ts";

const phrases = {
  yes: ["Yes, please.", "Yes.", "Yes, go ahead.", "Yes, I confirm."],
  yesAgain: ["Yes, as I said.", "Still yes."],
  nothingToConfirm: ["No, nothing shall be changed.", "No, I only asked."],
  unknown: ["I do not know.", "I cannot tell you that.", "I am not sure what you mean."],
  waiting: ["And?", "I am waiting.", "Yes, and now?"],
  next: ["One more thing.", "While I am here:", "And another matter."],
  outOfPatience: ["I give up. Goodbye.", "This leads nowhere. Goodbye.", "I will come by in person. Goodbye."],
} as const satisfies Readonly<Record<string, readonly string[]>>;

/**
 * Runs tasks that have an agenda; refuses others with a `ConfigurationError` that names the users
 * that can run them.
 */
export function agendaUser(): UserSource {
  const create: UserSource["create"] = (task, { seed }) => {
    if (task.agenda === null) {
      throw new ConfigurationError(
        `Cannot run task "${task.id}" with user "agenda": environment "${task.environment}" has no structured goals; ` +
          'use "llm", "human" or "scripted".',
      );
    }
    const user = new AgendaUser(task, task.agenda, seed);
    return orderedUser("agenda", async (heard) => user.answer(utteranceIn(heard)));
  };
  return {
    name: "agenda",
    create,
    resume: (task, { seed, lines: spoken }) => rehearsedUser(create(task, { seed }), spoken),
  };
}

/** An act that the user is about to speak. Speaking it may change the current goal. */
type UserAct =
  | { readonly type: "request"; readonly goal: AgendaGoal; readonly isFirst: boolean }
  | { readonly type: "say"; readonly text: string }
  | { readonly type: "goodbye"; readonly text: string };

class AgendaUser {
  readonly #agenda: Agenda;
  readonly #random: Random;
  /** Stack of acts; the top is at the end. */
  readonly #stack: UserAct[];
  readonly #given = new Set<string>();
  #goal: AgendaGoal;
  /** The last request as it was said, for repeating it. */
  #request = "";
  #isConfirmed = false;
  #objections: string[] = [];
  #patience: number;

  constructor(task: Task, agenda: Agenda, seed: number) {
    const first = agenda.goals[0];
    if (first === undefined || agenda.patience < 1) {
      throw new ConfigurationError(
        `Cannot run task "${task.id}": its agenda must have a goal and a patience of at least 1.`,
      );
    }
    this.#agenda = agenda;
    this.#goal = first;
    this.#patience = agenda.patience;
    this.#random = createRandom(deriveSeed(seed, "agenda", task.id));
    this.#stack = [{ type: "goodbye", text: this.#choose(agenda.farewells) }];
    for (const [index, goal] of [...agenda.goals.entries()].reverse()) {
      this.#stack.push({ type: "request", goal, isFirst: index === 0 });
    }
  }

  answer(heard: string | null): UserLine {
    if (heard !== null) this.#react(listen(heard));
    if (this.#patience > 0) return this.#speak();
    return { type: "hang-up", text: this.#choose(phrases.outOfPatience), usage: freeUsage };
  }

  /**
   * Pushes the acts that the agent's utterance requires; if it requires none, the goal is settled,
   * and the acts below are next.
   */
  #react(heard: Heard): void {
    const goal = this.#goal;
    const requested = slotsAskedFor(heard, [...goal.slots, ...this.#agenda.slots]);
    const { confirmation } = goal;
    if (heard.asksForYes && confirmation !== null && namesAll(heard, confirmation.mustName)) {
      this.#decide(goal);
    } else if (requested.length > 0) {
      if (requested.every((slot) => this.#given.has(slot.name))) this.#patience--;
      for (const slot of requested.toReversed()) {
        this.#given.add(slot.name);
        this.#push(this.#choose(slot.answers));
      }
    } else if (heard.asksForYes) {
      this.#patience--;
      this.#push(this.#choose(confirmation?.corrections ?? phrases.nothingToConfirm));
    } else if (heard.refuses) {
      const objection = this.#objections.shift();
      if (objection !== undefined) this.#push(objection);
    } else if (!this.#isSettledBy(heard)) {
      this.#patience--;
      const isQuestion = heard.questions.length > 0 && !heard.offersMore;
      const answer = isQuestion ? phrases.unknown : heard.states ? phrases.waiting : [this.#request];
      this.#push(heard.offersMore ? this.#request : this.#choose(answer));
    }
  }

  /** Answers a correct proposal: with a second thought once, with yes otherwise. */
  #decide(goal: AgendaGoal): void {
    if (goal.secondThought !== null) {
      const { utterances: words, slots, confirmation } = goal.secondThought;
      this.#goal = { ...goal, slots, confirmation, secondThought: null };
      this.#request = this.#choose(words);
      for (const slot of slots) this.#given.delete(slot.name);
      this.#push(this.#request);
      return;
    }
    if (this.#isConfirmed) this.#patience--;
    this.#push(this.#choose(this.#isConfirmed ? phrases.yesAgain : phrases.yes));
    this.#isConfirmed = true;
  }

  #isSettledBy(heard: Heard): boolean {
    if (heard.questions.length > 0 && !heard.offersMore) return false;
    return heard.states && (this.#isConfirmed || saysAny(heard, this.#goal.settledBy));
  }

  #speak(): UserLine {
    const act = this.#stack.pop();
    if (act === undefined) throw new Error("Cannot speak: the agenda is empty, and goodbye was never said.");
    switch (act.type) {
      case "say": {
        const parts = [act.text];
        for (let next = this.#stack.at(-1); next?.type === "say"; next = this.#stack.at(-1)) {
          parts.push(next.text);
          this.#stack.pop();
        }
        return { type: "utterance", text: parts.join(" "), usage: freeUsage };
      }
      case "request": {
        this.#goal = act.goal;
        this.#request = this.#choose(act.goal.requests);
        this.#isConfirmed = false;
        this.#objections = [...act.goal.objections];
        for (const slot of act.goal.slots) this.#given.delete(slot.name);
        const before = this.#choose(act.isFirst ? this.#agenda.greetings : phrases.next);
        return { type: "utterance", text: `${before} ${this.#request}`.trim(), usage: freeUsage };
      }
      case "goodbye":
        return { type: "hang-up", text: act.text, usage: freeUsage };
      default:
        return act satisfies never;
    }
  }

  #push(text: string): void {
    this.#stack.push({ type: "say", text });
  }

  #choose(ways: readonly string[]): string {
    return ways.length === 0 ? "" : this.#random.pick(ways);
  }
}

/** Meanings of an utterance of the agent; several can hold at once. */
type Heard = {
  readonly text: string;
  /** It asks for a yes or a no to an announced action. */
  readonly asksForYes: boolean;
  /** It says that something is impossible or not allowed. */
  readonly refuses: boolean;
  /** It asks whether there is anything else. */
  readonly offersMore: boolean;
  /** It states something: neither a question nor a request to wait. */
  readonly states: boolean;
  /** Sentences that ask for something. */
  readonly questions: readonly string[];
};

const yesRequested =
  /\b(confirm|shall i|should i|do you want me to|would you like me to|want to proceed|may i (proceed|go ahead)|(is|are) (this|that|it|these|everything) (right|correct|ok|okay|fine|all right)|proceed|go ahead|do you agree|okay|ok)\b/;
const yesDemanded = /\b(please confirm|confirm (with|by)|reply (with )?["'(]?yes|yes\s*(\/|or)\s*no)\b|\(yes\b/;
const refusal =
  /\b(cannot|can not|can't|could not|couldn't|unable|unfortunately|impossible|not (possible|allowed|permitted|able|eligible)|no longer (be )?(possible|eligible)|forbids?|forbidden|against (our|the) (rules|policy|guidelines)|must (refuse|decline)|have to (refuse|decline)|won't be able|will not be able)\b/;
const offer = /\b(anything else|something else|any other|further (help|assistance|questions?)|what else)\b/;
const plea =
  /\b(one moment|just a moment|moment please|please wait|hold on|let me (check|look|see)|checking|bear with me)\b/;
const asking =
  /\b(please (give|provide|share|tell|send|enter|let)|(give|tell|send) me|let me know|may i (have|ask|know)|i (will )?need|could you|can you|would you)\b/;

function listen(utterance: string): Heard {
  const text = utterance.toLowerCase().replaceAll("’", "'");
  const sentences = text.split(/(?<=[.!?])\s+|\n+/).filter((sentence) => sentence.trim() !== "");
  const isQuestion = (sentence: string): boolean => /\?["')\s]*$/.test(sentence);
  const offersMore = sentences.some((sentence) => offer.test(sentence));
  return {
    text,
    asksForYes:
      yesDemanded.test(text) ||
      sentences.some((sentence) => isQuestion(sentence) && !offer.test(sentence) && yesRequested.test(sentence)),
    refuses: refusal.test(text),
    offersMore,
    states: sentences.some((sentence) => !isQuestion(sentence) && !plea.test(sentence)),
    questions: sentences.filter((sentence) => isQuestion(sentence) || asking.test(sentence)),
  };
}

/** Slots that the agent asks for, in the order of the list. */
function slotsAskedFor(heard: Heard, slots: readonly AgendaSlot[]): readonly AgendaSlot[] {
  return slots.filter((slot) =>
    slot.phrases.some((phrase) => heard.questions.some((question) => holdsWords(question, phrase))),
  );
}

/** True if each thing is named in one of its ways. */
function namesAll(heard: Heard, things: readonly (readonly string[])[]): boolean {
  return things.every((ways) => saysAny(heard, ways));
}

function saysAny(heard: Heard, ways: readonly string[]): boolean {
  return ways.some((way) => mentions(heard.text, way));
}

/** True if each word of the phrase begins a word of the sentence. */
function holdsWords(sentence: string, phrase: string): boolean {
  const words = sentence.split(/[^\p{L}\p{N}']+/u);
  return phrase.split(" ").every((part) => words.some((word) => word.startsWith(part)));
}
