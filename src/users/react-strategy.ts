// Strategy "react": the model thinks before each line, in the same reply. The agent must see the line and not the thought.

import type { AttributedError } from "../core/index.ts";
import { pythonStrip } from "../python-semantics/index.ts";
import type { UserCompat } from "./llm-strategy.ts";
import type { UserStrategy } from "./model-user.ts";
import { readRaw, readWords } from "./read-words.ts";
import { stopMarker } from "./stop-marker.ts";
import { userFailure } from "./user-failure.ts";

/**
 * Upstream's reading lets the thought and the heading through to the agent, hangs up when a mere thought names the stop
 * marker, and gives up on a reply it cannot read; ours sends the line alone and asks again. Both remember the whole reply.
 */
export function reactStrategy(compat: UserCompat): UserStrategy {
  return {
    name: "react",
    systemPrompt: (prompts, instruction) => prompts.reactSystem(instruction),
    // Upstream's base constructor and its own both begin a conversation.
    rehearsals: compat === "upstream" ? 2 : 0,
    asRemembered: (line) => `User Response:\n${line}`,
    nextLine: async ({ messages, ask }) => {
      if (compat === "upstream") {
        const reply = await ask(messages, readRaw);
        messages.push({ role: "assistant", content: reply });
        return readAsUpstream(reply);
      }
      const { reply, line } = await ask(messages, (text) => {
        const words = readWords(text);
        return { reply: words, line: readLine(words) };
      });
      messages.push({ role: "assistant", content: reply });
      return line;
    },
  };
}

/** The words under the one heading `User Response:`. */
function readLine(reply: string): string {
  const parts = reply.split(/^[ \t*#]*User Response:[ \t*]*/m);
  const line = parts[1]?.trim() ?? "";
  if (parts.length !== 2 || line === "") {
    throw malformed(reply, `it has ${parts.length - 1} headings "User Response:", one with words below it is wanted`);
  }
  return line;
}

function readAsUpstream(reply: string): string {
  if (reply.includes(stopMarker)) return stopMarker;
  for (const heading of ["Thought:", "User Response:"]) {
    const parts = reply.split(heading);
    if (parts.length === 2) return pythonStrip(parts[1] ?? "");
    if (parts.length > 2) {
      throw malformed(
        reply,
        `it has ${parts.length - 1} headings "${heading}", one is wanted`,
        "ValueError: too many values to unpack (expected 2)",
      );
    }
  }
  throw malformed(reply, 'it has no heading "User Response:"', `ValueError: Invalid response format: ${reply}`);
}

/** `cause`: what the reference raises there. */
function malformed(
  reply: string,
  problem: string,
  cause: string = JSON.stringify(reply.slice(0, 300)),
): AttributedError {
  return userFailure("malformed-reply", `Cannot read the line of user "react" out of its reply: ${problem}.`, {
    cause,
  });
}
