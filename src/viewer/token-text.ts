// The text of every token of an episode: decoded as a stream, so that characters of several tokens
// stay whole.

import type { Tokenizer } from "../core/index.ts";
import type { PackedText, ShownEpisode } from "./wire/index.ts";

/** One packed text for each turn. */
export function packedText(
  { trajectory }: ShownEpisode,
  tokenizer: Tokenizer,
): { readonly observation: PackedText; readonly action: PackedText }[] {
  return trajectory.turns.map(({ observationTokens, sampledTokens }) => ({
    observation: packed(observationTokens, tokenizer),
    action: packed(sampledTokens, tokenizer),
  }));
}

function packed(tokens: Uint32Array, tokenizer: Tokenizer): PackedText {
  const lengths = new Uint16Array(tokens.length);
  const decoder = tokenizer.startDecoding();
  const parts: string[] = [];
  for (let at = 0; at < tokens.length; at++) {
    const part = decode(() => decoder.push(tokens[at]!), tokens[at]!);
    parts.push(part);
    lengths[at] = part.length;
  }
  const rest = decoder.finish();
  if (rest !== "" && tokens.length > 0) {
    parts.push(rest);
    lengths[tokens.length - 1]! += rest.length;
  }
  return { text: parts.join(""), lengths: Buffer.from(lengths.buffer).toString("base64") };
}

/** A tokenizer of another version may lack an id. */
function decode(push: () => string, id: number): string {
  try {
    return push();
  } catch {
    return `⟨${id}⟩`;
  }
}
