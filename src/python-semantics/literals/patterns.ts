// Pieces of regular expressions as Python means them; JavaScript's `\s` and `\w` are other sets. For the flag "u".

/** Inside a class: what `\s` matches on text. */
const spaces = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";

/** `\s`. */
export const space = `[${spaces}]`;

/** Inside a class: what `\w` matches on text. */
export const wordCharacters = "\\p{L}\\p{N}_";

/** A pattern of parts, of which each stands behind the one before it or behind white space. */
export const spaced = (...parts: readonly string[]): string => parts.join(`${space}*`);

/** A pattern for a text as it stands. */
export const verbatim = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");

const spaceCharacter = new RegExp(`^${space}$`, "u");

/** `character.isspace()`. */
export function isSpace(character: string): boolean {
  return spaceCharacter.test(character);
}
