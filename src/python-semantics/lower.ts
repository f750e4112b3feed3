// Python's `str.lower`, pinned to Unicode 14 as the other tables here are. Both languages know the final sigma.

import { isPrintable } from "./unprintable.ts";

// oxlint-disable-next-line no-control-regex
const ascii = /^[\u0000-\u007f]*$/;

/** `str.lower()` of CPython 3.11: letters that Unicode has gained since version 14 stay as they are. */
export function pythonLower(text: string): string {
  const lowered = text.toLowerCase();
  if (lowered === text || ascii.test(text)) return lowered;
  let result = "";
  let piece = "";
  for (const character of text) {
    if (isNewerLetter(character)) {
      // A sigma beside such a letter may come out in its other form; no text is known to need it.
      result += piece.toLowerCase() + character;
      piece = "";
    } else {
      piece += character;
    }
  }
  return result === "" ? lowered : result + piece.toLowerCase();
}

/** Unassigned in version 14 counts as unprintable, and nothing unprintable had a lower case then. */
function isNewerLetter(character: string): boolean {
  return character.toLowerCase() !== character && !isPrintable(character.codePointAt(0)!);
}
