// Finds keys that occur twice in an object of a JSON text, with different values. `JSON.parse`
// takes the last one, so that the first of two scores from a judge would be lost.

type Span = { readonly start: number; readonly end: number };

/**
 * The first key of an object in `text` (valid JSON) that has two different values; `null` if there
 * is none. `notes` are keys whose values are remarks and may differ, also inside the two values.
 */
export function contradictedKey(text: string, notes: readonly string[]): string | null {
  /**
   * Open objects and lists: for an object, the positions of the values of its keys; for a list,
   * `null`.
   */
  const open: (Map<string, Span> | null)[] = [];
  /** The current member of each open object. */
  const members: { key: string; start: number }[] = [];
  const valueAt = ({ start, end }: Span): string => comparable(JSON.parse(text.slice(start, end)), notes);
  /** True if the member that ends here contradicts an earlier one. */
  const isContradiction = (end: number): boolean => {
    const values = open.at(-1);
    const member = members.at(-1);
    if (!values || member === undefined || member.start === -1) return false;
    const known = values.get(member.key);
    const value = { start: member.start, end };
    values.set(member.key, value);
    member.start = -1;
    return known !== undefined && !notes.includes(member.key) && valueAt(known) !== valueAt(value);
  };
  const tokens = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]/g;
  let last = "";
  for (let found = tokens.exec(text); found !== null; found = tokens.exec(text)) {
    const [token] = found;
    if (token === "{") {
      open.push(new Map());
      members.push({ key: "", start: -1 });
    } else if (token === "[") open.push(null);
    else if (token === "]") open.pop();
    else if (token === ":") members.at(-1)!.start = tokens.lastIndex;
    else if (token === "," || token === "}") {
      if (isContradiction(found.index)) return members.at(-1)!.key;
      if (token === "}") {
        open.pop();
        members.pop();
      }
    } else if (open.at(-1) && (last === "{" || last === ",")) members.at(-1)!.key = JSON.parse(token) as string;
    last = token;
  }
  return null;
}

/** A text that is equal for equal values, independent of the order of keys. */
function comparable(value: unknown, notes: readonly string[]): string {
  return JSON.stringify(value, (_key, part: unknown) => {
    if (typeof part !== "object" || part === null || Array.isArray(part)) return part;
    const members = Object.entries(part).filter(([key]) => !notes.includes(key));
    return Object.fromEntries(members.toSorted(([a], [b]) => (a < b ? -1 : 1)));
  });
}
