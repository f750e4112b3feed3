// One dialogue as a row to clone: its tokens, and which of them the desk said.

import { type Sample } from "../../core/index.ts";

export type Dialogue = {
  /** Guidelines and tools, then the conversation. */
  readonly tokens: Uint32Array;
  /** Places in `tokens` of what the desk said; ascending. */
  readonly targets: Uint32Array;
};

export function dialogueOf({ tokens, lossMask }: Sample): Dialogue {
  return { tokens, targets: Uint32Array.from(tokens.keys()).filter((place) => lossMask[place] === 1) };
}

/** The conversation alone: what a model learns cheapest from, since nobody has to read the guidelines. */
export function withoutPrompt({ tokens, targets }: Dialogue, promptLength: number): Dialogue {
  return { tokens: tokens.subarray(promptLength), targets: targets.map((place) => place - promptLength) };
}
