// Deals sequences out to threads and cuts each thread's share into passes that fit its memory. Depends on nothing but the
// sequences and the options, so that sums always come about in the same order.

export type WorkLimits = { readonly threads: number; readonly maxTokens: number; readonly maxTargets: number };

/** One pass of one thread: which sequences, and how many tokens all of them begin with. */
export type Pass = { readonly members: readonly number[]; readonly prefixLength: number };

type Sized = { readonly tokens: Uint32Array; readonly targets: Uint32Array };

/**
 * One list of passes for each thread, of about equal work. Longest sequences are dealt first, each to the lightest pass; a
 * pass that grows too large for the limits makes the number of passes rise. Every sequence must fit the limits alone.
 */
export function splitWork(sequences: readonly Sized[], limits: WorkLimits): readonly (readonly Pass[])[] {
  const { threads, maxTokens, maxTargets } = limits;
  const all = Array.from(sequences.keys());
  const shared = sharedPrefix(all.map((index) => sequences[index]!.tokens));
  const order = all.toSorted((a, b) => sequences[b]!.tokens.length - sequences[a]!.tokens.length || a - b);
  const tokens = all.reduce((sum, index) => sum + sequences[index]!.tokens.length - shared, 0);
  const fewest = Math.ceil(tokens / Math.max(1, maxTokens - shared));
  for (let rounds = Math.max(1, Math.ceil(fewest / threads)); ; rounds++) {
    const bins = Array.from({ length: rounds * threads }, () => ({
      members: [] as number[],
      tokens: shared,
      targets: 0,
    }));
    for (const index of order) {
      const lightest = bins.reduce((least, bin) => (bin.tokens < least.tokens ? bin : least));
      lightest.members.push(index);
      lightest.tokens += sequences[index]!.tokens.length - shared;
      lightest.targets += sequences[index]!.targets.length;
    }
    const fits = bins.every((bin) => bin.members.length <= 1 || (bin.tokens <= maxTokens && bin.targets <= maxTargets));
    if (!fits) continue;
    return Array.from({ length: threads }, (_, thread) =>
      bins
        .filter((bin, place) => place % threads === thread && bin.members.length > 0)
        .map(({ members }) => passOf(members, sequences)),
    );
  }
}

function passOf(members: number[], sequences: readonly Sized[]): Pass {
  members.sort((a, b) => a - b);
  return { members, prefixLength: sharedPrefix(members.map((index) => sequences[index]!.tokens)) };
}

/** How many tokens all begin with, one less than the shortest at most: every sequence keeps something of its own. */
export function sharedPrefix(sequences: readonly Uint32Array[]): number {
  const [first, ...others] = sequences;
  if (first === undefined || others.length === 0) return 0;
  let length = Math.min(...sequences.map((tokens) => tokens.length)) - 1;
  for (const other of others) {
    let same = 0;
    while (same < length && other[same] === first[same]) same++;
    length = same;
  }
  return Math.max(0, length);
}
