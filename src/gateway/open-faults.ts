// Calls of a session that its model left without an answer, until the same conversation is answered. The reward that a program prints
// after such a call (often 0) says nothing about the model.

import type { Failure, Message } from "../core/index.ts";

/** Further calls are not kept: an episode that has so many is not graded in any case. */
const mostKept = 100;

export class OpenFaults {
  readonly #open: { readonly failure: Failure; readonly messages: readonly string[] }[] = [];

  /** The fault of the first such call; `null`: there is none. */
  get first(): Failure | null {
    return this.#open[0]?.failure ?? null;
  }

  /** `messages`: the whole conversation of the call. */
  add(failure: Failure, messages: readonly Message[]): void {
    if (this.#open.length < mostKept) this.#open.push({ failure, messages: messages.map(keyOf) });
  }

  /** A call was answered: earlier ones whose conversation it begins with are resolved. */
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
