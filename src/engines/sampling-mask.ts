// Kept ids in the replies of servers, one list for each sampled token. Loaded only where they are
// requested. A trainer renormalizes over them, so a list that cannot be the one that its token was
// drawn from refuses the reply.

import { badReply, type FailureContext, isTokenId } from "../http/index.ts";

/** Maximum number of kept ids in one reply: more cannot be the result of a useful truncation. */
const mostIds = 2 ** 26;

/**
 * The lists in the form of `SampleResult.samplingMask`. Throws an `AttributedError` with code
 * "bad-reply" unless there is one list of distinct ids for each sampled token, with that token in it.
 */
export function readSamplingMask(
  value: unknown,
  sampled: Uint32Array,
  options: {
    /** Name of the field, for messages. */
    readonly name: string;
    readonly vocabularySize: number | null;
    /** Action that makes the server send the field. */
    readonly remedy: string;
    readonly context: FailureContext;
  },
): Uint32Array {
  const { name, vocabularySize, remedy, context } = options;
  const refuse = (state: string) => badReply(context, `${name} ${state}`, { retryable: false, remedy });
  // A call that ended before its first token has no list.
  if (value === undefined || value === null) {
    if (sampled.length === 0) return new Uint32Array(0);
    throw refuse("is missing, and was requested");
  }
  if (!Array.isArray(value)) throw refuse("is not a list");
  const lists = value as readonly unknown[];
  if (lists.length !== sampled.length) throw refuse(`has ${lists.length} lists for ${sampled.length} sampled tokens`);
  let size = 0;
  for (const list of lists) size += 1 + (Array.isArray(list) ? list.length : 0);
  if (size > mostIds) throw refuse(`has ${size} entries, expected at most ${mostIds}`);
  const mask = new Uint32Array(size);
  const most = vocabularySize ?? Number.POSITIVE_INFINITY;
  let at = 0;
  for (const [token, list] of lists.entries()) {
    if (!Array.isArray(list)) throw refuse(`has no list for token ${token}`);
    mask[at++] = list.length;
    const seen = new Set<unknown>();
    for (const id of list as readonly unknown[]) {
      if (!isTokenId(id) || id >= most)
        throw refuse(`has ${JSON.stringify(id).slice(0, 40)} for token ${token}, which is not a token id`);
      seen.add(id);
      mask[at++] = id;
    }
    if (seen.size !== list.length) throw refuse(`repeats an id for token ${token}`);
    if (!seen.has(sampled[token])) throw refuse(`does not have token ${token}, which was drawn from it`);
  }
  return mask;
}
