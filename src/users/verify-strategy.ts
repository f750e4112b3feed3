// Strategy "verify": a checker reads each line before it is sent; a refused one is made again, up to three times in all.

import { pythonRepr } from "../python-semantics/index.ts";
import type { UserCompat } from "./llm-strategy.ts";
import type { UserStrategy } from "./model-user.ts";
import { readRaw, readWords } from "./read-words.ts";
import { mayBeSent } from "./review.ts";

const maxAttempts = 3;

/**
 * When all are refused, the last line is sent. Upstream then forgets it, so that the model sees two messages of the agent in
 * a row, and shows its checker the message object instead of the words; ours remembers what it sent.
 */
export function verifyStrategy(compat: UserCompat): UserStrategy {
  return {
    name: "verify",
    systemPrompt: (prompts, instruction) => prompts.system(instruction),
    rehearsals: compat === "upstream" ? 1 : 0,
    asRemembered: (line) => line,
    nextLine: async (conversation) => {
      const { messages, ask } = conversation;
      for (let attempt = 1; ; attempt++) {
        const line = await ask(messages, compat === "upstream" ? readRaw : readWords);
        const response = compat === "upstream" ? messageObject(line) : line;
        const isAccepted = await mayBeSent(conversation, { messages, response, compat });
        if (isAccepted || (attempt === maxAttempts && compat === "sane")) {
          messages.push({ role: "assistant", content: line });
        }
        if (isAccepted || attempt === maxAttempts) return line;
      }
    },
  };
}

/** How upstream's client library prints a message. */
function messageObject(content: string): string {
  return `Message(content=${pythonRepr(content)}, role='assistant', tool_calls=None, function_call=None)`;
}
