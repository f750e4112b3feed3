/** A piece of a reply in Harmony, the format of gpt-oss. */
export type HarmonyEvent = {
  readonly type: "reasoning" | "normal" | "tool-call";
  readonly content: string;
  /** For calls: the whole block with its markers. */
  readonly raw: string;
};
