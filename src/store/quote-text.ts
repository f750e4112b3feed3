// Texts as JSON strings. The long ones of an episode stand in it twice (as an event and as a message), and its guidelines in
// every episode of a run; quoting is what writing an episode costs most.

/** Shorter texts are quoted faster than they are found. */
const leastLength = 100;
const mostKept = 256;
/** Above this a text is nothing to keep. */
const mostLength = 16_384;

/** Quoted texts, the one used last at the end. */
const kept = new Map<string, string>();

/** As Python's `json.dumps` quotes without `ensure_ascii`, except that lone surrogates are escaped. */
export function quoteText(text: string): string {
  if (text.length < leastLength || text.length > mostLength) return JSON.stringify(text);
  const known = kept.get(text);
  if (known !== undefined) kept.delete(text);
  else if (kept.size >= mostKept) kept.delete(kept.keys().next().value!);
  const quoted = known ?? JSON.stringify(text);
  kept.set(text, quoted);
  return quoted;
}
