// Rendered segments of a chat template: their text, edits of the text that the template itself
// writes, and the detection of messages that it omits.
//
// Replacing in the whole prompt would also change what users and tools said, so edits look only at
// the template's own text. A tool result or a question that is not in the prompt never reaches the
// model, and nothing else in an episode would show it.

import { AttributedError, type Message, ConfigurationError } from "../core/index.ts";
import type { TemplateSegment, ChatTemplate, TemplateContext } from "./chat-template.ts";
import { fromPlain } from "../python-semantics/json/index.ts";
import type { RendererFamily } from "./renderer-family.ts";

export function segmentsText(segments: readonly TemplateSegment[]): string {
  return segments.map((segment) => segment.text).join("");
}

export type PromptEdit = {
  readonly replace: string;
  readonly with: string;
  /**
   * Reaction when the template does not write the text: the default "refuse" throws, "skip" leaves
   * the template as it is.
   */
  readonly whenMissing?: "refuse" | "skip";
};

type EditedTemplate = {
  readonly family: RendererFamily;
  readonly template: ChatTemplate;
  readonly context: TemplateContext;
};

/** Applies edits in order, each to every occurrence in the template's own text. */
export function applyPromptEdits(
  segments: readonly TemplateSegment[],
  edits: readonly PromptEdit[],
): readonly TemplateSegment[] {
  if (edits.length === 0) return segments;
  return segments.map((segment) => {
    if (segment.source !== "template") return segment;
    const text = edits.reduce((edited, edit) => edited.replaceAll(edit.replace, () => edit.with), segment.text);
    return text === segment.text ? segment : { ...segment, text };
  });
}

/**
 * Throws a `ConfigurationError` for an edit that would change nothing, unless it says "skip":
 * otherwise nothing would show that its text is missing.
 */
export function checkPromptEdits({ family, template, context }: EditedTemplate, edits: readonly PromptEdit[]): void {
  // The probe gives tools, which some templates refuse, so it runs only if its outcome counts.
  if (edits.every(({ whenMissing }) => whenMissing === "skip")) return;
  const tools = fromPlain([
    { type: "function", function: { name: "probe", description: "", parameters: { type: "object", properties: {} } } },
  ]);
  const probe = template({
    messages: [
      { role: "system", content: "" },
      { role: "user", content: "" },
    ].map(fromPlain),
    tools,
    addGenerationPrompt: true,
    kwargs: new Map(),
    context,
  });
  edits.forEach((edit, index) => {
    const edited = applyPromptEdits(probe, edits.slice(0, index));
    const isFound =
      edit.replace !== "" && edited.some(({ source, text }) => source === "template" && text.includes(edit.replace));
    if (isFound || edit.whenMissing === "skip") return;
    throw new ConfigurationError(
      `Cannot edit the prompt of model family "${family.name}": its template does not write "${edit.replace}"; ` +
        "give text that the template writes itself, or remove the edit.",
    );
  });
}

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
    whole ??= segmentsText(segments);
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

/** Throws {@link lostMessageError} if the rendering omits a message. */
export function requireShown(family: string, segments: readonly TemplateSegment[], messages: readonly Message[]): void {
  const lost = lostMessage(segments, messages);
  if (lost !== null) throw lostMessageError(family, lost, messages[lost]!);
}
