// Names what a template did to text that stood before: the first change only, since everything after it differs anyway.

import type { Message } from "../../core/index.ts";
import { auditWords } from "./sampled-texts.ts";
import type { Difference, HistoryChange } from "./template-audit.ts";

const excerptLength = 48;
/** Of the tool's definition. */
const toolWords = "Finds an order.";

export type Parted = {
  /** All that the policy saw and sampled. */
  readonly seen: string;
  /** Where in it the last answer begins, and where it ends. */
  readonly answer: { readonly start: number; readonly end: number };
  /** What the template writes now. */
  readonly written: string;
  /** The messages before the new ones, the question first. */
  readonly history: readonly Message[];
  readonly newMessages: readonly Message[];
  /** Tags of thinking; empty for families that do not think or mark it otherwise. */
  readonly thinkTags: readonly string[];
};

/** `null` when the new text begins with the old one. */
export function nameChange(parted: Parted): Difference | null {
  const { seen, written } = parted;
  if (written.startsWith(seen)) return null;
  let at = 0;
  while (at < seen.length && seen[at] === written[at]) at++;
  // A tag in which they part is shown whole.
  const tag = /[<[][^<>[\]]{0,20}$/.exec(seen.slice(0, at));
  const place = tag?.index ?? at;
  return {
    change: changeAt(at, parted),
    seen: seen.slice(place, place + excerptLength),
    written: written.slice(place, place + excerptLength),
  };
}

function changeAt(at: number, { seen, written, answer, history, newMessages, thinkTags }: Parted): HistoryChange {
  const first = written.indexOf(history[0]?.content ?? "");
  const places = newMessages.filter(({ content }) => content !== "").map(({ content }) => written.indexOf(content));
  if (places.includes(-1)) return "drops-message";
  if (places.some((place) => place < first)) return "moves-message";
  if (count(written, auditWords.thought) < count(seen, auditWords.thought)) return "drops-thinking";
  const bare = (text: string): string => text.replace(/\s+/g, "");
  if (bare(written).startsWith(bare(seen))) return "white-space";
  const unthought = (text: string): string => bare(thinkTags.reduce((rest, tag) => rest.replaceAll(tag, ""), text));
  if (unthought(written).startsWith(unthought(seen))) return "think-block";
  if (written.indexOf(toolWords) > seen.indexOf(toolWords)) return "moves-tools";
  if (at >= answer.end) return "answer-end";
  return at >= answer.start && seen.slice(answer.start, answer.end).includes("find_order")
    ? "rewrites-call"
    : "rewrites-text";
}

function count(text: string, part: string): number {
  return text.split(part).length - 1;
}
