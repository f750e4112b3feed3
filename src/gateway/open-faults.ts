// Calls of a session that its model failed to answer, until the same conversation is answered. The
// reward that a program prints after such a call (often 0) says nothing about the model.

import type { Failure, Message } from "../core/index.ts";

/** Maximum number of stored calls; an episode with so many is not graded anyway. */
const mostKept = 100;

export class OpenFaults {
  readonly #open: { readonly failure: Failure; readonly messages: readonly string[] }[] = [];

  /** Failure of the first such call; `null` if there is none. */
  get first(): Failure | null {
    return this.#open[0]?.failure ?? null;
  }

  /** `messages`: the whole conversation of the call. */
  add(failure: Failure, messages: readonly Message[]): void {
    if (this.#open.length < mostKept) this.#open.push({ failure, messages: messages.map(keyOf) });
  }

  /**
   * Records that a call was answered: it resolves earlier calls whose conversation its own begins
   * with.
   */
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
