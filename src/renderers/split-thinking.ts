// How Qwen3's and GLM's templates take thinking out of a content that has it inline. Not a parser of what models write: the
// templates cut at other places than parsers of servers do.

import { pythonLstrip, pythonRstrip } from "../python-semantics/index.ts";

/** Cuts thinking out of content that has a closing tag. */
export function splitThinking(text: string): { readonly reasoning: string; readonly content: string } {
  const parts = text.split("</think>");
  const before = pythonRstrip(parts[0] ?? "", "\n").split("<think>");
  return { reasoning: pythonLstrip(before.at(-1) ?? "", "\n"), content: pythonLstrip(parts.at(-1) ?? "", "\n") };
}
