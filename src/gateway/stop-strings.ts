// Stop strings of a request, found in the sampled text regardless of the boundaries of tokens and
// characters. A client receives the text before the first one; the record keeps all sampled tokens.

import type { IncrementalDecoder, Renderer, StopStrings } from "../core/index.ts";

type Decoding = Pick<Renderer, "decode" | "startDecoding">;

/** Stop strings for an engine; `null` if there are none. */
export function stopStringsOf(strings: readonly string[], renderer: Decoding): StopStrings | null {
  const all = [...new Set(strings.filter((one) => one !== ""))];
  if (all.length === 0) return null;
  const longest = Math.max(...all.map(({ length }) => length));
  return {
    strings: all,
    watch: () => {
      const decoder = renderer.startDecoding?.() ?? decodingAgain(renderer);
      /** The end of the text so far, long enough for an incomplete stop string. */
      let end = "";
      return (id) => {
        const piece = decoder.push(id);
        if (piece === "") return null;
        const text = end + piece;
        end = text.slice(Math.max(0, text.length - longest + 1));
        return findStop(text, all)?.string ?? null;
      };
    },
  };
}

/** Decodes all ids again for each new one. */
function decodingAgain({ decode }: Pick<Decoding, "decode">): Pick<IncrementalDecoder, "push"> {
  const ids: number[] = [];
  let told = 0;
  return {
    push: (id) => {
      ids.push(id);
      const text = decode(ids).replace(/\uFFFD+$/, "");
      const piece = text.slice(told);
      told = Math.max(told, text.length);
      return piece;
    },
  };
}

/**
 * The stop string that is completed first, and its start; if several end at the same place, the
 * longest.
 */
export function findStop(
  text: string,
  strings: readonly string[],
): { readonly string: string; readonly start: number } | null {
  let found: { readonly string: string; readonly start: number } | null = null;
  let end = Infinity;
  for (const string of strings) {
    const start = text.indexOf(string);
    if (start === -1 || start + string.length > end) continue;
    if (start + string.length === end && start > (found?.start ?? -1)) continue;
    [found, end] = [{ string, start }, start + string.length];
  }
  return found;
}

/**
 * End of the part of a text that is certain to be shown while sampling continues: before a stop
 * string, or a possible beginning of one.
 */
export function sureEnd(text: string, strings: readonly string[]): number {
  const found = findStop(text, strings);
  if (found !== null) return found.start;
  let held = 0;
  for (const string of strings) {
    for (let length = Math.min(string.length - 1, text.length); length > held; length--) {
      if (text.endsWith(string.slice(0, length))) held = length;
    }
  }
  return text.length - held;
}
