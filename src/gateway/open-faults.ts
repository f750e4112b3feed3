// Calls of a session that its model did not answer for a fault that is not the program's, until the program has made up for them. What
// a program says of an episode with such a call (often a reward of 0) says nothing of the model.

import type { Failure, Message } from "../core/index.ts";

/** More are not told apart: an episode that has so many is not graded in any case. */
const mostKept = 100;

export class OpenFaults {
  readonly #open: { readonly failure: Failure; readonly messages: readonly string[] }[] = [];

  /** The first call that nothing has made up for; `null`: there is none. */
  get first(): Failure | null {
    return this.#open[0]?.failure ?? null;
  }

  /** `messages`: of the call, all of them. */
  add(failure: Failure, messages: readonly Message[]): void {
    if (this.#open.length < mostKept) this.#open.push({ failure, messages: messages.map(keyOf) });
  }

  /** A call was answered: those before it whose conversation it has are made up for. */
  answered(messages: readonly Message[]): void {
    if (this.#open.length === 0) return;
    const keys = messages.map(keyOf);
    const still = this.#open.filter((one) => !one.messages.every((key, at) => key === keys[at]));
    this.#open.splice(0, this.#open.length, ...still);
  }

  clear(): void {
    this.#open.length = 0;
  }
}

function keyOf(message: Message): string {
  const { role, content } = message;
  return JSON.stringify([role, content, role === "assistant" ? message.toolCalls.map(({ name }) => name) : []]);
}
