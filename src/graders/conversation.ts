// A finished conversation as graders read it: who said and did what, in order. No tokens and no bad actions: what the other
// side never heard is not part of it. Made from an episode here, and from files of other programs by whoever reads those.

import type { Episode } from "../core/index.ts";
import type { JsonObject } from "../python-semantics/json/value.ts";

export type ConversationStep =
  | { readonly type: "user"; readonly words: string; readonly hangsUp: boolean }
  | { readonly type: "agent"; readonly words: string }
  | {
      readonly type: "call";
      readonly name: string;
      readonly arguments: JsonObject;
      /** What the agent read. */
      readonly result: string;
      readonly isError: boolean;
    };

export type Conversation = readonly ConversationStep[];

/** The conversation of an episode. */
export function conversationOf(episode: Episode): Conversation {
  const steps: ConversationStep[] = [];
  let call: { readonly name: string; readonly arguments: JsonObject } | null = null;
  for (const event of episode.events) {
    if (event.type === "user-line") {
      const { text, type } = event.line;
      steps.push({ type: "user", words: text, hangsUp: type === "hang-up" });
    } else if (event.type === "decision") {
      const { decision } = event;
      if (decision.type === "say") steps.push({ type: "agent", words: decision.words });
      call = decision.type === "call" ? { name: decision.call.name, arguments: decision.arguments } : null;
    } else if (event.type === "tool-result" && call !== null) {
      const { text, isError } = event.result;
      steps.push({ type: "call", ...call, result: text, isError });
      call = null;
    }
  }
  return steps;
}
