// The one sign by which simulated users end a conversation, as τ-bench defines it: anywhere in the line, exactly spelt.

import type { UserLine, ModelUsage } from "../core/index.ts";

export const stopMarker = "###STOP###";

/** A line of words, or a hang-up when the text holds the stop marker. The text is kept as it is. */
export function lineFrom(text: string, usage: ModelUsage): UserLine {
  return { type: text.includes(stopMarker) ? "hang-up" : "words", text, usage };
}
