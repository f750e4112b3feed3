// Strategy "reflection": a checker reads each line before it is sent; after a refusal the model is asked what is wrong with
// the line and for a better one.

import { pythonStrip } from "../python-semantics/index.ts";
import type { UserCompat } from "./llm-strategy.ts";
import type { Conversation, UserStrategy } from "./model-user.ts";
import { readRaw, readWords } from "./read-words.ts";
import { mayBeSent, transcriptOf } from "./review.ts";
import { userFailure } from "./user-failure.ts";

export function reflectionStrategy(compat: UserCompat): UserStrategy {
  return {
    name: "reflection",
    systemPrompt: (prompts, instruction) => prompts.system(instruction),
    rehearsals: compat === "upstream" ? 1 : 0,
    asRemembered: (line) => line,
    nextLine: compat === "upstream" ? nextLineAsUpstream : nextLine,
  };
}

/** One reflection; its better line is sent. The model remembers only what was sent. */
async function nextLine(conversation: Conversation): Promise<string> {
  const { messages, ask } = conversation;
  const draft = await ask(messages, readWords);
  const isAccepted = await mayBeSent(conversation, { messages, response: draft, compat: "sane" });
  const line = isAccepted ? draft : await reflectOn(conversation, draft, "sane");
  messages.push({ role: "assistant", content: line });
  return line;
}

/**
 * Upstream takes the better line for something the agent said, completes once more, and has that checked; refused again, it
 * sends the first line after all. Both replies stay in the conversation, whichever was sent.
 */
async function nextLineAsUpstream(conversation: Conversation): Promise<string> {
  const { messages, ask } = conversation;
  const shown = [...messages];
  const first = await ask(shown, readRaw);
  messages.push({ role: "assistant", content: first });
  if (await mayBeSent(conversation, { messages: shown, response: first, compat: "upstream" })) return first;
  const better = await reflectOn({ ...conversation, messages: shown }, first, "upstream");
  shown.push({ role: "user", content: better });
  const second = await ask(shown, readRaw);
  messages.push({ role: "assistant", content: second });
  return (await mayBeSent(conversation, { messages: shown, response: second, compat: "upstream" })) ? second : first;
}

async function reflectOn(conversation: Conversation, response: string, compat: UserCompat): Promise<string> {
  const { instruction, messages, prompts, ask } = conversation;
  const question = prompts.reflect({ instruction, transcript: transcriptOf(messages, compat), response });
  const asked = [{ role: "user", content: question }] as const;
  // What upstream cannot read ends its run; ours asks again.
  return compat === "upstream" ? readAsUpstream(await ask(asked, readRaw)) : ask(asked, readBetterLine);
}

/** What stands under the last heading `Response:`. */
function readBetterLine(reply: string): string {
  const line =
    readWords(reply)
      .split(/^[ \t*#]*Response:[ \t*]*/m)
      .slice(1)
      .at(-1)
      ?.trim() ?? "";
  if (line !== "") return line;
  throw userFailure(
    "malformed-reply",
    'Cannot read the reflection of user "reflection": there are no words below a heading "Response:", a line is wanted.',
    { cause: JSON.stringify(reply.slice(0, 300)) },
  );
}

function readAsUpstream(reply: string): string {
  const parts = reply.split("Response:");
  if (parts.length === 2) return pythonStrip(parts[1] ?? "");
  throw userFailure(
    "malformed-reply",
    `Cannot read the reflection of user "reflection": it has ${parts.length - 1} headings "Response:", one is wanted.`,
    {
      cause:
        parts.length === 1
          ? "ValueError: not enough values to unpack (expected 2, got 1)"
          : "ValueError: too many values to unpack (expected 2)",
    },
  );
}
