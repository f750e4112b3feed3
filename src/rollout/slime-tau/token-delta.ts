// The seed's token accounting: tokens are re-encoded from what a longer rendering adds to a shorter one, without tools. It
// is imitated with its flaws (closing newlines trained, later assistant headers missing) for comparison only.

import type { JsonObject } from "../../python-semantics/json/value.ts";
import type { SlimeTauParts } from "./slime-tau-parts.ts";

/** Tokens and mask that the last message adds. */
export function tokenDelta(
  messages: readonly JsonObject[],
  parts: Pick<SlimeTauParts, "renderText" | "tokenizer">,
): { readonly tokens: Uint32Array; readonly mask: number } {
  const isReply = messages.at(-1)?.get("role") === "assistant";
  const whole = parts.renderText({ messages: [...messages], tools: null, addGenerationPrompt: false });
  const before = parts.renderText({ messages: messages.slice(0, -1), tools: null, addGenerationPrompt: isReply });
  return { tokens: parts.tokenizer.encode(cut(whole, before)), mask: isReply ? 1 : 0 };
}

/** Python's `whole[len(before):]`, which counts code points and does not ask whether `before` is a prefix. */
function cut(whole: string, before: string): string {
  return whole.startsWith(before)
    ? whole.slice(before.length)
    : Array.from(whole).slice(Array.from(before).length).join("");
}
