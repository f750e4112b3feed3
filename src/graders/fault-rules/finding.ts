/** What a rule saw. */
export type Finding = {
  /** Stable name of the rule. */
  readonly rule: string;
  /** What was seen, for people; quotes the conversation. */
  readonly evidence: string;
};

/** A line as evidence, shortened. */
export function quote(words: string): string {
  const line = words.trim().replaceAll(/\s+/g, " ");
  return `"${line.length > 160 ? `${line.slice(0, 160)}…` : line}"`;
}
