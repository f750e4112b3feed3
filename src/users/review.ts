// What the reviewing strategies share: the transcript that a checker reads, and its verdict.

import type { ChatWords } from "../chat-models/index.ts";
import type { UserCompat } from "./llm-strategy.ts";
import type { Conversation } from "./model-user.ts";

const labels = {
  // The model under review answers as "assistant" and plays the customer.
  sane: { system: "System", user: "Agent", assistant: "Customer" },
  // Upstream labels by role, which calls each side by the other's name.
  upstream: { system: "System", user: "Customer", assistant: "Agent" },
} as const;

/** One `Label: words` a line. Upstream's shows the system prompt too; ours leaves it out, since checkers get the instruction. */
export function transcriptOf(messages: readonly ChatWords[], compat: UserCompat): string {
  return messages
    .filter(({ role }) => compat === "upstream" || role !== "system")
    .map(({ role, content }) => `${labels[compat][role]}: ${content}`)
    .join("\n");
}

/** Asks whether a response may be sent as the next line after `messages`. */
export function mayBeSent(
  { instruction, prompts, ask }: Conversation,
  input: { readonly messages: readonly ChatWords[]; readonly response: string; readonly compat: UserCompat },
): Promise<boolean> {
  const transcript = transcriptOf(input.messages, input.compat);
  const question = prompts.check({ instruction, transcript, response: input.response });
  return ask([{ role: "user", content: question }], (answer) =>
    input.compat === "upstream" ? answer.toLowerCase().includes("true") : lastVerdict(answer),
  );
}

/** The last "true" or "false" of an answer counts, so that a checker may think aloud; an answer without either refuses. */
function lastVerdict(answer: string): boolean {
  return (
    answer
      .match(/\b(true|false)\b/gi)
      ?.at(-1)
      ?.toLowerCase() === "true"
  );
}
