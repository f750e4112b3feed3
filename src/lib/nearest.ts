// Finds the name that a mistyped one most likely meant, for messages that end in `did you mean
// "group-size"?`.

/** Maximum number of proposed names. */
const mostProposed = 3;

/**
 * Cost of a single edit, lower than that of a name that is only a prefix of the word, so that
 * `--queueca` suggests `--queue-ca` and not `--queue`.
 */
const oneEdit = 0.25;

/** The most likely intended name; `null` if none is near. */
export function nearest(word: string, names: readonly string[]): string | null {
  return nearestOf(word, names)[0] ?? null;
}

/** A list of near names, as in `did you mean "group-size"?`; `null` if none is near. */
export function suggestion(word: string, names: readonly string[]): string | null {
  const near = nearestOf(word, names).map((name) => `"${name}"`);
  if (near.length === 0) return null;
  const last = near.pop()!;
  return `did you mean ${near.length === 0 ? last : `${near.join(", ")} or ${last}`}?`;
}

/** The suggestion as a sentence with a leading space; "" if no name is near. */
export function meant(word: string, names: readonly string[]): string {
  const near = suggestion(word, names);
  return near === null ? "" : ` D${near.slice(1)}`;
}

/** The end of a message about an unknown name: all valid names, and the likely intended one. */
export function remedyFor(word: string, names: readonly string[]): string {
  return `use one of ${names.join(", ")}.${meant(word, names)}`;
}

/**
 * Near names, best first. By spelling: a name within edits of a third of the word's length. By
 * meaning: a name with all parts of the word and at most one more, or the other way round:
 * `--model` for `--model-path`, `--max-new-tokens` for `--max-tokens`, `--env` for `--environment`.
 */
function nearestOf(word: string, names: readonly string[]): readonly string[] {
  const own = plain(word);
  if (own === "") return [];
  const most = Math.max(1, Math.floor(own.length / 3));
  const near = best(names, (name) => {
    const other = plain(name);
    const edits = editDistance(own, other);
    const missing = missingParts(own.split("-"), other.split("-"));
    const costs = [
      ...(edits <= most && edits < other.length ? [edits === 1 ? oneEdit : edits] : []),
      ...(missing <= 1 ? [edits === 0 ? 0 : 0.5 + missing] : []),
    ];
    return costs.length === 0 ? null : Math.min(...costs);
  });
  return near.slice(0, mostProposed);
}

/** The names with the lowest cost, in their original order. */
function best(names: readonly string[], costOf: (name: string) => number | null): readonly string[] {
  const costs = names.flatMap((name) => {
    const cost = costOf(name);
    return cost === null ? [] : [{ name, cost }];
  });
  const lowest = Math.min(...costs.map(({ cost }) => cost));
  return [...new Set(costs.filter(({ cost }) => cost === lowest).map(({ name }) => name))];
}

/** Normalizes spelling: `--groupSize`, `group_size` and "Group size" all become `group-size`. */
function plain(word: string): string {
  return word
    .replaceAll(/([a-z\d])([A-Z])/g, "$1-$2")
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}]+/gu, "-")
    .replaceAll(/^-|-$/g, "");
}

/** Number of parts that only one of the two has; infinite if each has some of its own. */
function missingParts(left: readonly string[], right: readonly string[]): number {
  const without = (parts: readonly string[], others: readonly string[]): number =>
    parts.filter((part) => !others.some((other) => isSamePart(part, other))).length;
  const [onlyLeft, onlyRight] = [without(left, right), without(right, left)];
  return onlyLeft > 0 && onlyRight > 0 ? Infinity : onlyLeft + onlyRight;
}

/** True if the parts are equal, or one abbreviates the other. */
function isSamePart(left: string, right: string): boolean {
  const [short, long] = left.length < right.length ? [left, right] : [right, left];
  return short === long || (short.length >= 3 && long.startsWith(short));
}

/**
 * Number of insertions, deletions, replacements and swaps of neighbours that turn one into the
 * other.
 */
function editDistance(a: string, b: string): number {
  let [before, row]: [readonly number[], readonly number[]] = [[], Array.from({ length: b.length + 1 }, (_, at) => at)];
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      next.push(Math.min(replaced, row[j]! + 1, next[j - 1]! + 1, isSwap ? before[j - 2]! + 1 : Infinity));
    }
    [before, row] = [row, next];
  }
  return row[b.length]!;
}
