// Strategy "llm": one call a line, the reply is the line.

import type { UserStrategy } from "./model-user.ts";
import { readRaw, readWords } from "./read-words.ts";

/** Whether a strategy behaves sensibly or as the τ-bench reference does, quirks included. */
export type UserCompat = "sane" | "upstream";

/** Upstream sends the reply untrimmed, thinking included, and begins each episode with a conversation it throws away. */
export function llmStrategy(compat: UserCompat): UserStrategy {
  const read = compat === "upstream" ? readRaw : readWords;
  return {
    name: "llm",
    systemPrompt: (prompts, instruction) => prompts.system(instruction),
    rehearsals: compat === "upstream" ? 1 : 0,
    asRemembered: (line) => line,
    nextLine: async ({ messages, ask }) => {
      const line = await ask(messages, read);
      messages.push({ role: "assistant", content: line });
      return line;
    },
  };
}
