// Changes to the text that a chat template itself writes. Replacing in the whole prompt would also change what users and
// tools said, so edits look only at the template's own text.

import { ConfigurationError } from "../core/index.ts";
import { fromPlain } from "../python-semantics/json/index.ts";
import type { ChatTemplate, TemplateContext, TemplateSegment } from "./chat-template.ts";
import type { RendererFamily } from "./renderer-family.ts";

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
