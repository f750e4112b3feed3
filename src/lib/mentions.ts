// Whether words name a thing: found without case, and not as a part of a longer word or number ("$12" is not in "$120").
// For simulated users and graders, which know no language beyond that.

/** Looks for `thing` in `words`. An empty thing is never mentioned. */
export function mentions(words: string, thing: string): boolean {
  const text = words.toLowerCase();
  const wanted = thing.toLowerCase();
  if (wanted === "") return false;
  for (let at = text.indexOf(wanted); at !== -1; at = text.indexOf(wanted, at + 1)) {
    if (!isPartOfWord(text, at - 1, at) && !isPartOfWord(text, at + wanted.length - 1, at + wanted.length)) return true;
  }
  return false;
}

/** True when the two neighbouring characters both belong to words, so that no word ends between them. */
function isPartOfWord(text: string, left: number, right: number): boolean {
  return isWordCharacter(text[left]) && isWordCharacter(text[right]);
}

function isWordCharacter(character: string | undefined): boolean {
  return character !== undefined && /[\p{L}\p{N}]/u.test(character);
}
