// The normalizer "Precompiled": a table of replacements that SentencePiece compiled into a double-array trie, as Unigram models
// carry it (XLM-R, T5, Sarashina). A grapheme of fewer than six bytes is looked up whole, then each of its characters; the
// shortest key that a lookup passes decides.

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/**
 * Reads the table. `failure` makes the error for a table that cannot be one.
 *
 * @param charsmap Base64 of: the length of the trie in bytes, the trie in units of four bytes, and the replacements, each closed
 *   by a zero byte. Integers are little-endian.
 */
export function createPrecompiledNormalizer(
  charsmap: string,
  failure: (problem: string) => Error,
): (text: string) => string {
  const bytes = Uint8Array.from(atob(charsmap), (character) => character.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  const trieLength = bytes.length >= 4 ? view.getUint32(0, true) : 0;
  if (trieLength === 0 || trieLength % 4 !== 0 || 4 + trieLength > bytes.length) {
    throw failure("normalizer.precompiled_charsmap is cut off");
  }
  const units = Uint32Array.from({ length: trieLength / 4 }, (_, index) => view.getUint32(4 + index * 4, true));
  const replacements = bytes.subarray(4 + trieLength);
  const known = new Map<string, string | null>();
  const lookUp = (part: string): string | null => {
    let found = known.get(part);
    if (found === undefined) {
      const place = findShortestKey(units, encoder.encode(part));
      found = place < 0 ? null : textAt(replacements, place);
      if (known.size >= 65_536) known.clear();
      known.set(part, found);
    }
    return found;
  };
  const graphemes = new Intl.Segmenter("und", { granularity: "grapheme" });
  const normalizeGrapheme = (grapheme: string): string => {
    const whole = encoder.encode(grapheme).length < 6 ? lookUp(grapheme) : null;
    return whole ?? Array.from(grapheme, (character) => lookUp(character) ?? character).join("");
  };
  return (text) => {
    let made = "";
    for (const { segment } of graphemes.segment(text)) made += normalizeGrapheme(segment);
    return made;
  };
}

/** The value of the shortest key that begins `key`; -1 if there is none. */
function findShortestKey(units: Uint32Array, key: Uint8Array): number {
  const offsetOf = (unit: number): number => (unit >>> 10) << ((unit & 0x200) >>> 6);
  let node = offsetOf(units[0]!);
  for (const byte of key) {
    if (byte === 0) return -1;
    node ^= byte;
    const unit = units[node];
    if (unit === undefined || (unit & 0x8000_00ff) >>> 0 !== byte) return -1;
    node ^= offsetOf(unit);
    if ((unit & 0x100) !== 0) return (units[node] ?? 0) & 0x7fff_ffff;
  }
  return -1;
}

function textAt(replacements: Uint8Array, start: number): string {
  const end = replacements.indexOf(0, start);
  return decoder.decode(replacements.subarray(start, end < 0 ? replacements.length : end));
}
