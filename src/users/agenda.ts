// A user without a model: it follows the structured goal of its task by an agenda (Schatzmann et al. 2007), a stack of what
// it still has to say. The agent's words push answers on top; what was asked is popped, and nothing else; below wait the
// next goals and, at the bottom, goodbye. The same task, seed and agent's words give the same lines.
//
//   agent's words ─► listen ─► push acts ─► pop what is ready ─► line
//                                stack: [inform order][request goal 2][goodbye]

import { type Agenda, type AgendaGoal, ConfigurationError, freeUsage, type Task } from "../core/index.ts";
import type { UserLine, UserSimulator, UserSource } from "../core/index.ts";
import { createRandom, deriveSeed, type Random } from "../lib/random.ts";
import { type Heard, listen, namesAll, saysAny, slotsAskedFor } from "./agenda-listening.ts";
import { phrases } from "./agenda-phrases.ts";
import { CallOrder } from "./call-order.ts";
import { rehearsedUser } from "./rehearsed-user.ts";

/** Plays tasks that carry an agenda; refuses others with a `ConfigurationError` that names the users that can. */
export function agendaUser(): UserSource {
  const create: UserSource["create"] = (task, { seed }) => {
    if (task.agenda === null) {
      throw new ConfigurationError(
        `Cannot play task "${task.id}" with user "agenda": environment "${task.environment}" has no structured goals; ` +
          'use "llm", "human" or "scripted".',
      );
    }
    return new AgendaUser(task, task.agenda, seed);
  };
  return {
    name: "agenda",
    create,
    resume: (task, { seed, spoken }) => rehearsedUser(create(task, { seed }), spoken),
  };
}

/** What the user is about to say. Speaking an act may change what it is after. */
type UserAct =
  | { readonly type: "request"; readonly goal: AgendaGoal; readonly isFirst: boolean }
  | { readonly type: "say"; readonly text: string }
  | { readonly type: "goodbye"; readonly text: string };

class AgendaUser implements UserSimulator {
  readonly #order = new CallOrder("agenda");
  readonly #agenda: Agenda;
  readonly #random: Random;
  /** The top is the end. */
  readonly #stack: UserAct[];
  readonly #told = new Set<string>();
  #goal: AgendaGoal;
  /** The request as it was said, for saying it again. */
  #request = "";
  #isConfirmed = false;
  #objections: string[] = [];
  #patience: number;

  constructor(task: Task, agenda: Agenda, seed: number) {
    const first = agenda.goals[0];
    if (first === undefined || agenda.patience < 1) {
      throw new ConfigurationError(
        `Cannot play task "${task.id}": its agenda needs a goal and a patience of 1 or more.`,
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

  open(): Promise<UserLine> {
    return this.#order.run("open", async () => this.#speak());
  }

  reply(words: string): Promise<UserLine> {
    return this.#order.run("reply", async () => {
      this.#react(listen(words));
      if (this.#patience > 0) return this.#speak();
      return { type: "hang-up", text: this.#choose(phrases.outOfPatience), usage: freeUsage };
    });
  }

  /** Pushes what the agent's words call for; where they call for nothing, the acts below come up: the goal is settled. */
  #react(heard: Heard): void {
    const goal = this.#goal;
    const asked = slotsAskedFor(heard, [...goal.slots, ...this.#agenda.slots]);
    const { confirmation } = goal;
    if (heard.asksForYes && confirmation !== null && namesAll(heard, confirmation.mustName)) {
      this.#decide(goal);
    } else if (asked.length > 0) {
      if (asked.every((slot) => this.#told.has(slot.name))) this.#patience--;
      for (const slot of asked.toReversed()) {
        this.#told.add(slot.name);
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

  /** Answers a proposal that is right: with second thoughts once, with yes otherwise. */
  #decide(goal: AgendaGoal): void {
    if (goal.secondThought !== null) {
      const { words, slots, confirmation } = goal.secondThought;
      this.#goal = { ...goal, slots, confirmation, secondThought: null };
      this.#request = this.#choose(words);
      for (const slot of slots) this.#told.delete(slot.name);
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
        return { type: "words", text: parts.join(" "), usage: freeUsage };
      }
      case "request": {
        this.#goal = act.goal;
        this.#request = this.#choose(act.goal.requests);
        this.#isConfirmed = false;
        this.#objections = [...act.goal.objections];
        for (const slot of act.goal.slots) this.#told.delete(slot.name);
        const before = this.#choose(act.isFirst ? this.#agenda.greetings : phrases.next);
        return { type: "words", text: `${before} ${this.#request}`.trim(), usage: freeUsage };
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
