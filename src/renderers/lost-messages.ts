// Detects messages that a chat template omits. A tool result or a question that is not in the
// prompt never reaches the model, and nothing else in an episode would show it.

import { AttributedError, type Message } from "../core/index.ts";
import type { TemplateSegment } from "./chat-template.ts";

/**
 * A character that Python does not strip. Python's white space includes U+0085 and four separators
 * that JavaScript's does not.
 */
// oxlint-disable-next-line no-control-regex -- separators of files, groups, records and units
const visible = /[^\s\x1c-\x1f\x85]/;

/**
 * Place of the first user or tool message whose text is missing from the rendering; `null` if there
 * is none. A message counts as shown if a part of its content is written, if something computed
 * from it is, or if its whole text occurs.
 */
export function lostMessage(segments: readonly TemplateSegment[], messages: readonly Message[]): number | null {
  const shown = new Set<number>();
  for (const { message, source, text } of segments) {
    if (message === null || source === "template" || shown.has(message)) continue;
    const origin = messages[message];
    if (origin !== undefined && (source === "unknown" || isContent(text, origin))) shown.add(message);
  }
  let whole: string | null = null;
  for (const [place, { role, content }] of messages.entries()) {
    if ((role !== "user" && role !== "tool") || shown.has(place)) continue;
    if (!visible.test(content)) continue;
    const text = content.trim();
    whole ??= segments.map((segment) => segment.text).join("");
    if (!whole.includes(text)) return place;
  }
  return null;
}

/**
 * True if a text that was taken from a message is part of its content, perhaps as JSON, and not its
 * role, its name or its call's id.
 */
function isContent(text: string, message: Message): boolean {
  const part = text.trim();
  const others: readonly (string | null)[] =
    message.role === "tool" ? ["tool", message.name, message.callId] : [message.role];
  return part !== "" && (!others.includes(part) || message.content.trim() === part);
}

/** The failure of a rollout whose template omits message `place`. */
export function lostMessageError(family: string, place: number, { role }: Message): AttributedError {
  return new AttributedError({
    boundary: "renderer",
    code: "message-not-shown",
    message:
      `Cannot render with the chat template of "${family}": it leaves out message ${place} (${role}), so the model would never ` +
      "read it; use a template that shows the messages of users and tools, and examine it with doctor template.",
    retryable: false,
    cause: null,
  });
}
