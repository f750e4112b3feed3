// Reads a model's reply as words that can be sent. Local servers without a reasoning parser leave the thinking of a model
// in its reply; the agent must not see it.

import { splitThinking } from "../chat-models/index.ts";
import { userFailure } from "./user-failure.ts";

/** The words, trimmed, without a thinking block at the start. Throws the failure "empty-reply" when nothing is left. */
export function readWords(reply: string): string {
  const words = splitThinking(reply).words.trim();
  if (words === "") throw emptyReply(reply);
  return words;
}

/** The reply as it is. Throws the failure "empty-reply" when there is nothing to see in it. */
export function readRaw(reply: string): string {
  if (reply.trim() === "") throw emptyReply(reply);
  return reply;
}

const emptyReply = (reply: string) =>
  userFailure(
    "empty-reply",
    "Cannot take the user model's reply as a line: it is empty, words are wanted; allow it more tokens, or choose another model.",
    { cause: reply === "" ? null : JSON.stringify(reply.slice(0, 300)) },
  );
