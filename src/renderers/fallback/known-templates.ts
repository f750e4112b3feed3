// Published templates that are run as they are, and of which more is known than can be found by asking: their names, and that
// history may be appended to against them. Their words stay in the user's file; a native copy would only repeat them.

import type { Message } from "../../core/index.ts";
import { familyDefaults, type RendererFamily } from "../renderer-family.ts";
import { templateFingerprint } from "../template-fingerprint.ts";

type Knowledge = Pick<RendererFamily, "name" | "history" | "standIn">;

/** Results bear the ids of the calls before them. */
const withLastAction = (history: readonly Message[]): readonly Message[] => {
  const [question, answer] = familyDefaults.standIn();
  return [question, history.findLast(({ role }) => role === "assistant") ?? answer];
};

const knownTemplates: ReadonlyMap<string, Knowledge> = new Map([
  ["fccf0ecad5e3f753", { name: "mistral-nemo-2407", history: "rewrites", standIn: withLastAction }],
  ["e82384abef5763d5", { name: "mistral-small-3.2", history: "rewrites", standIn: withLastAction }],
  ["b73f8af41b998f38", { name: "seed-oss", history: "rewrites", standIn: familyDefaults.standIn }],
]);

export const knownTemplateNames: readonly string[] = [...knownTemplates.values()].map(({ name }) => name);

/** The family of a template with what is known of it, if anything is. */
export function withKnowledge(family: RendererFamily, chatTemplate: string): RendererFamily {
  return { ...family, ...knownTemplates.get(templateFingerprint(chatTemplate)) };
}
